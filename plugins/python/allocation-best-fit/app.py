"""A sample: the machine of which the smallest part would lie idle.

MAAS adds up cores and GiB and takes the smallest sum, whatever was asked for: for 8 cores and 16 GiB it would
rather give away 16 cores with 32 GiB than 8 cores with 48 GiB. Here counts which share of a machine's cores and
of its memory would lie idle.
"""

import json

import settings
from componentize_py_types import Err
from wit_world.exports.allocation import Constraints, Ranking, Shortlisting_Inspect
from wit_world.exports.metadata import Description, Issue
from wit_world.imports.host import Level, log

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "coreWeight": {
            "description": "How much idle cores count.",
            "type": "integer",
            "minimum": 0,
            "maximum": 1000,
            "default": 1,
        },
        "memoryWeight": {
            "description": "How much idle memory counts.",
            "type": "integer",
            "minimum": 0,
            "maximum": 1000,
            "default": 1,
        },
    },
}


class Metadata:
    def describe(self):
        return Description(
            name="allocation-best-fit",
            version="0.1.0",
            summary="the machine that leaves the least of itself idle",
            config_schema=json.dumps(SCHEMA),
        )

    def check_config(self, config):
        issues = settings.check(SCHEMA, config)
        if not issues:
            given = settings.read(SCHEMA, config)
            if given["coreWeight"] == given["memoryWeight"] == 0:
                issues = [("", "both weights are 0, so every machine is as good; give one of them")]
        if issues:
            raise Err([Issue(pointer, problem) for pointer, problem in issues])


class Allocation:
    def shortlist(self, request):
        return Shortlisting_Inspect(Constraints(0, 0, [], [], [], [], [], []))

    def rank(self, request, candidates):
        config = settings.read(SCHEMA, request.context.config)
        wanted = request.wanted

        def fit(index):
            one = candidates[index]
            cores = idle(one.cpu_cores, wanted.min_cpu_cores) * config["coreWeight"]
            memory = idle(one.memory_mib, wanted.min_memory_mib) * config["memoryWeight"]
            # The smallest of those that fit as well, as MAAS itself would choose.
            return cores + memory, one.cpu_cores, one.memory_mib, one.system_id

        order = sorted(range(len(candidates)), key=fit)
        if order:
            best = candidates[order[0]]
            cores = best.cpu_cores - wanted.min_cpu_cores
            memory = best.memory_mib - wanted.min_memory_mib
            log(Level.INFO, f"{best.hostname} leaves {cores} cores and {memory} MiB idle")
        return Ranking(order, [])


def idle(has, wanted):
    """Millionths of what a machine has: whole numbers compare alike everywhere."""
    return (has - wanted) * 1_000_000 // max(has, 1)
