// What to do when something fails: after two failed hosts people have to look.

export const metadata = {
  describe() {
    return {
      name: "@NAME@",
      version: "0.1.0",
      summary: "after two failed hosts people have to look",
      // JSON Schema of the settings, which the host checks before checkConfig is asked.
      configSchema: '{"type": "object", "additionalProperties": false}',
    };
  },
  checkConfig(config) {},
};

export const failureHandling = {
  handle({ replacements, stage, message }) {
    // A release cannot be given up: the machine would stay taken for ever.
    if (replacements >= 2 && stage !== "release") {
      return { tag: "give-up", val: `${replacements} hosts have failed: ${message}` };
    }
    return { tag: "use-default" };
  },
};
