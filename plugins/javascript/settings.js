// A policy's settings, held against its own JSON Schema: the same keywords and words as in the Rust samples, so
// far as the JavaScript ones need them. A keyword that is not looked at is an issue, so that a schema never
// promises what nobody checks.

const CALLED = {
  boolean: "true or false",
  integer: "a whole number",
  string: "a text",
  array: "a list",
  object: "an object",
};
// For people and editors, or looked at where the members are.
const WORDS = ["$schema", "title", "description", "default", "examples", "type", "properties"];
WORDS.push("additionalProperties", "items");

/** The settings, with the schema's defaults for those that were left out. */
export function read(schema, config) {
  const defaults = Object.entries(schema.properties)
    .filter(([, one]) => "default" in one)
    .map(([name, one]) => [name, one.default]);
  return { ...Object.fromEntries(defaults), ...JSON.parse(config || "{}") };
}

/** Pairs of a JSON pointer and what is wrong there. */
export function check(schema, config) {
  let value;
  try {
    value = JSON.parse(config || "{}");
  } catch (error) {
    return [{ pointer: "", problem: `this is not JSON: ${error.message}` }];
  }
  return compare(schema, value, "");
}

/** The pointer to a member. */
export function below(at, key) {
  return `${at}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function compare(schema, value, at) {
  if (schema.type && !is(value, schema.type)) {
    return [{ pointer: at, problem: `this is ${kind(value)}; give ${CALLED[schema.type]}` }];
  }
  const issues = Object.keys(schema)
    .sort()
    .map((keyword) => problemOf(keyword, schema[keyword], value))
    .filter((problem) => problem !== null)
    .map((problem) => ({ pointer: at, problem }));
  if (Array.isArray(value)) {
    value.forEach((item, index) => issues.push(...compare(schema.items ?? {}, item, `${at}/${index}`)));
  } else if (kind(value) === "an object") {
    const properties = schema.properties ?? {};
    const others = schema.additionalProperties ?? {};
    for (const key of Object.keys(value).sort()) {
      const place = below(at, key);
      if (Object.hasOwn(properties, key)) {
        issues.push(...compare(properties[key], value[key], place));
      } else if (others === false) {
        const known = Object.keys(properties).sort().join(", ");
        issues.push({ pointer: place, problem: `there is no such setting; there are ${known}` });
      } else {
        issues.push(...compare(others, value[key], place));
      }
    }
  }
  return issues;
}

function problemOf(keyword, limit, value) {
  switch (keyword) {
    case "minLength": {
      const empty = typeof value === "string" && value.length < limit;
      return empty ? "this is empty; give a text, or leave the setting out" : null;
    }
    case "minItems": {
      const empty = Array.isArray(value) && value.length < limit;
      return empty ? "this list is empty; name at least one, or leave the setting out" : null;
    }
    default: {
      const unknown = `the policy's own schema has an unknown keyword ${JSON.stringify(keyword)}`;
      return WORDS.includes(keyword) ? null : unknown;
    }
  }
}

function is(value, wanted) {
  return wanted === "integer" ? Number.isInteger(value) : kind(value) === CALLED[wanted];
}

function kind(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  const kinds = { boolean: "true or false", number: "a number", string: "a text" };
  return kinds[typeof value] ?? "an object";
}
