/** Whether a value follows a schema, for the part of JSON Schema (2020-12) that the random tools use. */

export type Schema = Readonly<Record<string, unknown>>;

/** The first fault, with its place; undefined: none. References lead into `root`. */
export function faultOf(value: unknown, schema: Schema, at = "$", root: Schema = schema): string | undefined {
  if (typeof schema.$ref === "string") return faultOf(value, referred(root, schema.$ref), at, root);
  if (Array.isArray(schema.anyOf)) {
    const faults = schema.anyOf.map((each: Schema) => faultOf(value, each, at, root));
    return faults.includes(undefined) ? undefined : `${at}: no part of the union: ${faults.join("; ")}`;
  }
  switch (schema.type) {
    case "object":
      return objectFault(value, schema, at, root);
    case "array":
      return arrayFault(value, schema, at, root);
    case "string":
      return stringFault(value, schema, at);
    case "integer":
    case "number":
      return numberFault(value, schema, at);
    case "null":
      return value === null ? undefined : `${at}: ${JSON.stringify(value)} is not null`;
    default:
      return typeof value === "boolean" ? undefined : `${at}: ${JSON.stringify(value)} is no boolean`;
  }
}

/** RFC 6901, without escapes. */
function referred(root: Schema, reference: string): Schema {
  const steps = reference.split("/").slice(1);
  return steps.reduce<Schema>((schema, step) => Object(schema[step]), root);
}

function objectFault(value: unknown, schema: Schema, at: string, root: Schema): string | undefined {
  const { properties, required, additionalProperties } = schema;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return `${at}: no object`;
  const known = new Map<string, Schema>(Object.entries(Object(properties)));
  const others = typeof additionalProperties === "object" ? Object(additionalProperties) : undefined;
  const missing = Array.isArray(required) ? required.find((name) => !Object.hasOwn(value, name)) : undefined;
  if (missing !== undefined) return `${at}: '${missing}' is missing`;
  for (const [name, member] of Object.entries(value)) {
    const own: Schema | undefined = known.get(name) ?? others;
    const fault = own === undefined ? `${at}: unknown member '${name}'` : faultOf(member, own, `${at}.${name}`, root);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function arrayFault(value: unknown, schema: Schema, at: string, root: Schema): string | undefined {
  const { items, minItems, maxItems } = schema;
  if (!Array.isArray(value)) return `${at}: no array`;
  if (value.length < Number(minItems) || value.length > Number(maxItems)) return `${at}: ${value.length} items`;
  const faults = value.map((item, i) => faultOf(item, Object(items), `${at}[${i}]`, root));
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

function numberFault(value: unknown, { type, minimum, maximum }: Schema, at: string): string | undefined {
  const isKind = type === "integer" ? Number.isInteger(value) : typeof value === "number";
  if (!isKind) return `${at}: ${JSON.stringify(value)} is no ${type}`;
  const isOutside = Number(value) < Number(minimum) || Number(value) > Number(maximum);
  return isOutside ? `${at}: ${value} is out of bounds` : undefined;
}
