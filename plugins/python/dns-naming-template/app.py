"""A sample: endpoints are named by a template, with an environment and a site in it.

What fills a place is made safe for DNS. A name that is too long loses letters of the cluster's name only; the
suffix stays whole, so two clusters whose names begin alike do not meet in one name.
"""

import json
import re

import settings
from componentize_py_types import Err
from wit_world.exports.dns_naming import Name
from wit_world.exports.metadata import Description, Issue
from wit_world.imports.types import Refusal_Failed

LONGEST_LABEL = 63
PLACES = ["cluster", "environment", "namespace", "site", "suffix"]
# Six characters.
SUFFIX = 6
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "template": {
            "description": "The name, with {cluster}, {environment}, {namespace}, {site} and {suffix} "
            "in it. It needs {suffix}: another name is proposed when one is taken already.",
            "type": "string",
            "minLength": 1,
            "default": "{cluster}-{environment}-{site}-{suffix}",
        },
        "environment": {
            "description": "For {environment}; left out with its hyphen when empty.",
            "type": "string",
            "default": "",
        },
        "site": {
            "description": "For {site}; left out with its hyphen when empty.",
            "type": "string",
            "default": "",
        },
        "ttlSeconds": {
            "description": "How long resolvers may keep an address.",
            "type": "integer",
            "minimum": 1,
            "maximum": 3600,
        },
    },
}


class Metadata:
    def describe(self):
        return Description(
            name="dns-naming-template",
            version="0.1.0",
            summary="endpoints are named by a template",
            config_schema=json.dumps(SCHEMA),
        )

    def check_config(self, config):
        issues = settings.check(SCHEMA, config) or _template_issues(settings.read(SCHEMA, config))
        if issues:
            raise Err([Issue(pointer, problem) for pointer, problem in issues])


class DnsNaming:
    def propose(self, request):
        config = settings.read(SCHEMA, request.context.config)
        values = {
            "cluster": request.context.cluster,
            "namespace": request.context.namespace,
            "environment": config["environment"],
            "site": config["site"],
            "suffix": request.suffix,
        }
        label = _label(config["template"], values)
        while len(label) > LONGEST_LABEL and values["cluster"]:
            values["cluster"] = values["cluster"][:-1]
            label = _label(config["template"], values)
        if len(label) > LONGEST_LABEL:
            raise Err(Refusal_Failed(f"even without the cluster's name {label!r} is too long for DNS"))
        return Name(label, None, config.get("ttlSeconds"))


def _template_issues(config):
    template = config["template"]
    for place in re.findall(r"\{([^{}]*)\}", template):
        if place not in PLACES:
            known = ", ".join("{%s}" % one for one in PLACES)
            return [("/template", f"{{{place}}} is unknown; there are {known}")]
    between = re.sub(r"\{[^{}]*\}", "", template)
    if "{" in between or "}" in between:
        return [("/template", "a brace has no partner; places are written {cluster}")]
    if re.search(r"[^a-z0-9-]", between):
        return [("/template", "between the places only a-z, 0-9 and - may stand")]
    if "{suffix}" not in template:
        return [("/template", "{suffix} is missing; without it a name that is taken stays taken")]
    fixed = len(_label(template, dict.fromkeys(PLACES, "") | config | {"suffix": "x" * SUFFIX}))
    if fixed > LONGEST_LABEL:
        return [("/template", f"{fixed} characters without the cluster's name; DNS allows 63")]
    return []


def _label(template, values):
    filled = re.sub(r"\{([^{}]*)\}", lambda place: values[place.group(1)], template)
    safe = re.sub(r"[^a-z0-9]+", "-", filled.lower())
    return safe.strip("-")
