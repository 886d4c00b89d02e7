"""A sample: after a few failures in a row people are called, with the runbook at hand.

Until then a failure is tried again where that is possible, and left to the host's default where it is not. A
release is never given up: the machine would stay taken for ever.
"""

import json

import settings
from componentize_py_types import Err
from wit_world.exports.failure_handling import Action_GiveUp, Action_Retry, Action_UseDefault
from wit_world.exports.metadata import Description, Issue
from wit_world.imports.types import Delay

# MAAS cannot deploy a machine again in place.
NO_RETRY = ["deploy"]
NO_GIVING_UP = ["release"]
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "required": ["runbook"],
    "properties": {
        "runbook": {
            "description": "An address for those who are called; {stage} becomes the stage that failed.",
            "type": "string",
            "minLength": 1,
        },
        "occurrences": {
            "description": "Failures in a row after which people are called.",
            "type": "integer",
            "minimum": 1,
            "default": 5,
        },
        "replacements": {
            "description": "Failed hosts of one machine after which people are called.",
            "type": "integer",
            "minimum": 1,
            "default": 2,
        },
        "retrySeconds": {
            "description": "Pause before the next try.",
            "type": "integer",
            "minimum": 1,
            "maximum": 3600,
            "default": 60,
        },
    },
}


class Metadata:
    def describe(self):
        return Description(
            name="failure-page-me",
            version="0.1.0",
            summary="after a few failures in a row people are called, with a runbook",
            config_schema=json.dumps(SCHEMA),
        )

    def check_config(self, config):
        issues = settings.check(SCHEMA, config)
        if not issues:
            runbook = settings.read(SCHEMA, config)["runbook"]
            if not runbook.startswith(("https://", "http://")):
                issues = [("/runbook", f"{json.dumps(runbook)} is no address; give one with https://")]
        if issues:
            raise Err([Issue(pointer, problem) for pointer, problem in issues])


class FailureHandling:
    def handle(self, failure):
        config = settings.read(SCHEMA, failure.context.config)
        stage, times = failure.stage, failure.occurrences
        # Every new host counts its own failures, so hosts are counted too.
        enough = times >= config["occurrences"] or failure.replacements >= config["replacements"]
        if enough and stage not in NO_GIVING_UP:
            runbook = config["runbook"].replace("{stage}", stage)
            # The address first: a reason is cut at 400 characters.
            return Action_GiveUp(f"see {runbook}: {_what_happened(failure)}")
        if stage in NO_RETRY:
            return Action_UseDefault()
        return Action_Retry(Delay(config["retrySeconds"], f"failure {times} in a row"))


def _what_happened(failure):
    host = failure.system_id or "no machine"
    times, before = failure.occurrences, failure.replacements
    often = "once" if times == 1 else f"{times} times"
    hosts = f", after {before} other host{'s' if before > 1 else ''}" if before else ""
    return f"{failure.stage} failed {often} on {host}{hosts}: {failure.message}"
