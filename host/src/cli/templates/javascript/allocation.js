// Which machine to take: the one with the most memory.

export const metadata = {
  describe() {
    return {
      name: "@NAME@",
      version: "0.1.0",
      summary: "the machine with the most memory",
      // JSON Schema of the settings, which the host checks before checkConfig is asked.
      configSchema: '{"type": "object", "additionalProperties": false}',
    };
  },
  checkConfig(config) {},
};

const ANY = { minCpuCores: 0, minMemoryMib: 0, zones: [], pools: [], tags: [], notZones: [], notPools: [], notTags: [] };

export const allocation = {
  shortlist(request) {
    // Inspect: the host lists the machines that fit, and calls rank. Narrow would leave the choice to MAAS.
    return { tag: "inspect", val: ANY };
  },
  rank(request, candidates) {
    // Indices into the candidates, best first.
    const order = candidates.map((_, index) => index);
    order.sort((a, b) => candidates[b].memoryMib - candidates[a].memoryMib);
    return { order, rejected: [] };
  },
};
