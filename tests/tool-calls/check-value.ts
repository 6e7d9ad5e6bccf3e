/** Whether a value follows a schema, for the part of JSON Schema (2020-12) that the random tools use. */

export type Schema = Readonly<Record<string, unknown>>;

/** The first fault, with its place; undefined: none. */
export function faultOf(value: unknown, schema: Schema, at = "$"): string | undefined {
  if (Array.isArray(schema.anyOf)) {
    const faults = schema.anyOf.map((each: Schema) => faultOf(value, each, at));
    return faults.includes(undefined) ? undefined : `${at}: no part of the union: ${faults.join("; ")}`;
  }
  switch (schema.type) {
    case "object":
      return objectFault(value, schema, at);
    case "array":
      return arrayFault(value, schema, at);
    case "string":
      return stringFault(value, schema, at);
    case "integer":
      return integerFault(value, schema, at);
    default:
      return typeof value === "boolean" ? undefined : `${at}: ${JSON.stringify(value)} is no boolean`;
  }
}

function objectFault(value: unknown, { properties, required }: Schema, at: string): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return `${at}: no object`;
  const known = new Map<string, Schema>(Object.entries(Object(properties)));
  const missing = Array.isArray(required) ? required.find((name) => !Object.hasOwn(value, name)) : undefined;
  if (missing !== undefined) return `${at}: '${missing}' is missing`;
  for (const [name, member] of Object.entries(value)) {
    const schema = known.get(name);
    const fault = schema === undefined ? `${at}: unknown member '${name}'` : faultOf(member, schema, `${at}.${name}`);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function arrayFault(value: unknown, { items, minItems, maxItems }: Schema, at: string): string | undefined {
  if (!Array.isArray(value)) return `${at}: no array`;
  if (value.length < Number(minItems) || value.length > Number(maxItems)) return `${at}: ${value.length} items`;
  const faults = value.map((item, i) => faultOf(item, Object(items), `${at}[${i}]`));
  return faults.find((fault) => fault !== undefined);
}

function stringFault(value: unknown, schema: Schema, at: string): string | undefined {
  const { enum: values, pattern, minLength = 0, maxLength = Number.POSITIVE_INFINITY } = schema;
  if (typeof value !== "string") return `${at}: ${JSON.stringify(value)} is no string`;
  if (Array.isArray(values)) return values.includes(value) ? undefined : `${at}: '${value}' is not in the enum`;
  if (typeof pattern === "string") {
    return new RegExp(pattern, "u").test(value) ? undefined : `${at}: '${value}' is not ${pattern}`;
  }
  const length = [...value].length;
  return length < Number(minLength) || length > Number(maxLength) ? `${at}: ${length} characters` : undefined;
}

function integerFault(value: unknown, { minimum, maximum }: Schema, at: string): string | undefined {
  if (typeof value !== "number" || !Number.isInteger(value)) return `${at}: ${JSON.stringify(value)} is no integer`;
  return value < Number(minimum) || value > Number(maximum) ? `${at}: ${value} is out of bounds` : undefined;
}
