"""A policy's settings, held against its own JSON Schema.

The same keywords and words as in the Rust samples, so far as the Python ones need them. A keyword that is not
looked at is an issue, so that a schema never promises what nobody checks.
"""

import json

KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
CALLED = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "array": "a list",
    "object": "an object",
}
# For people and editors, or looked at where the members are.
WORDS = {"$schema", "title", "description", "default", "examples", "type"}
WORDS |= {"properties", "additionalProperties", "items"}


def read(schema, config):
    """The settings, with the schema's defaults for those that were left out."""
    given = json.loads(config or "{}")
    defaults = {
        name: one["default"] for name, one in schema["properties"].items() if "default" in one
    }
    return defaults | given


def check(schema, config):
    """Pairs of a JSON pointer and what is wrong there."""
    try:
        value = json.loads(config or "{}")
    except ValueError as error:
        return [("", f"this is not JSON: {error}")]
    return list(_compare(schema, value, ""))


def _compare(schema, value, at):
    wanted = schema.get("type")
    if wanted is not None and not _is(value, wanted):
        yield at, f"this is {KINDS[type(value)]}; give {CALLED[wanted]}"
        return
    for keyword in sorted(schema):
        if (problem := _problem(keyword, schema[keyword], value)) is not None:
            yield at, problem
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _compare(schema.get("items", {}), item, f"{at}/{index}")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        for key, member in sorted(value.items()):
            place = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
            if key in properties:
                yield from _compare(properties[key], member, place)
            elif others is False:
                known = ", ".join(sorted(properties))
                yield place, f"there is no such setting; there are {known}"
            else:
                yield from _compare(others, member, place)
        for name in schema.get("required", []):
            if name not in value:
                yield at, f'"{name}" is missing; it has no default'


def _problem(keyword, limit, value):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if keyword == "minimum":
        return f"{value} is too small; give {limit} or more" if number and value < limit else None
    if keyword == "maximum":
        return f"{value} is too large; give {limit} or less" if number and value > limit else None
    if keyword == "minLength":
        empty = isinstance(value, str) and len(value) < limit
        return "this is empty; give a text, or leave the setting out" if empty else None
    if keyword == "enum":
        words = " or ".join(json.dumps(word) for word in limit)
        return None if value in limit else f"{json.dumps(value)} is unknown; give {words}"
    if keyword in WORDS or keyword == "required":
        return None
    return f'the policy\'s own schema has an unknown keyword "{keyword}"'


def _is(value, wanted):
    if wanted == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if wanted == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return KINDS[type(value)] == CALLED[wanted]
