"""How to name a cluster's endpoint: <namespace>-<cluster>-<suffix>."""

from wit_world.exports.dns_naming import Name
from wit_world.exports.metadata import Description

# A DNS label ends here (RFC 1035).
LONGEST_LABEL = 63


class Metadata:
    def describe(self):
        return Description(
            name="@NAME@",
            version="0.1.0",
            summary="names begin with the namespace",
            # JSON Schema of the settings, which the host checks before check_config is asked.
            config_schema='{"type": "object", "additionalProperties": false}',
        )

    def check_config(self, config):
        pass


class DnsNaming:
    def propose(self, request):
        # Names of Kubernetes objects are made of the letters that DNS allows, but for dots.
        front = f"{request.context.namespace}-{request.context.cluster}".replace(".", "-")
        front = front[: LONGEST_LABEL - len(request.suffix) - 1].strip("-")
        return Name(f"{front}-{request.suffix}", None, None)
