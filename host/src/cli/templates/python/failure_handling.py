"""What to do when something fails: after two failed hosts people have to look."""

from wit_world.exports.failure_handling import Action_GiveUp, Action_UseDefault
from wit_world.exports.metadata import Description


class Metadata:
    def describe(self):
        return Description(
            name="@NAME@",
            version="0.1.0",
            summary="after two failed hosts people have to look",
            # JSON Schema of the settings, which the host checks before check_config is asked.
            config_schema='{"type": "object", "additionalProperties": false}',
        )

    def check_config(self, config):
        pass


class FailureHandling:
    def handle(self, failure):
        # A release cannot be given up: the machine would stay taken for ever.
        if failure.replacements >= 2 and failure.stage != "release":
            return Action_GiveUp(f"{failure.replacements} hosts have failed: {failure.message}")
        return Action_UseDefault()
