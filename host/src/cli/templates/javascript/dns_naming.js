// How to name a cluster's endpoint: <namespace>-<cluster>-<suffix>.

// A DNS label ends here (RFC 1035).
const LONGEST_LABEL = 63;

export const metadata = {
  describe() {
    return {
      name: "@NAME@",
      version: "0.1.0",
      summary: "names begin with the namespace",
      // JSON Schema of the settings, which the host checks before checkConfig is asked.
      configSchema: '{"type": "object", "additionalProperties": false}',
    };
  },
  checkConfig(config) {},
};

export const dnsNaming = {
  propose({ context, suffix }) {
    // Names of Kubernetes objects are made of the letters that DNS allows, but for dots.
    const whole = `${context.namespace}-${context.cluster}`.replaceAll(".", "-");
    const front = whole.slice(0, LONGEST_LABEL - suffix.length - 1).replace(/-+$/, "");
    return { label: `${front}-${suffix}`, domain: null, ttlSeconds: null };
  },
};
