"""Which machine to take: the one with the most memory."""

from wit_world.exports.allocation import Constraints, Ranking, Shortlisting_Inspect
from wit_world.exports.metadata import Description


class Metadata:
    def describe(self):
        return Description(
            name="@NAME@",
            version="0.1.0",
            summary="the machine with the most memory",
            # JSON Schema of the settings, which the host checks before check_config is asked.
            config_schema='{"type": "object", "additionalProperties": false}',
        )

    def check_config(self, config):
        pass


class Allocation:
    def shortlist(self, request):
        # Inspect: the host lists the machines that fit, and calls rank. Narrow would leave the choice to MAAS.
        return Shortlisting_Inspect(Constraints(0, 0, [], [], [], [], [], []))

    def rank(self, request, candidates):
        # Indices into the candidates, best first.
        order = sorted(range(len(candidates)), key=lambda i: -candidates[i].memory_mib)
        return Ranking(order, [])
