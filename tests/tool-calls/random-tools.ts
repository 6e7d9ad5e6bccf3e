/**
 * Tools with random schemas: nested and recursive objects, references, enums, unions, bounded numbers, patterns, further
 * members. The same for the same seed.
 */
import type { ChatTool } from "@nereid/server/chat/chat-contract";
import type { Random } from "../support/random.ts";
import type { Schema } from "./check-value.ts";

const TOOL_NAMES = ["get_weather", "search", "write_file", "sum"];
const PROPERTY_NAMES = ["city", "days_count", "unit", "x1", "text", "list"];
const PATTERNS = ["^[a-z]{1,4}$", "^\\d{2}-\\d{2}$", "^(north|south)-[1-9]$"];
const MAX_DEPTH = 2;
const NULL: Schema = { type: "null" };

/** A list that holds itself, and an item: what references name. */
const DEFINITIONS: Schema = {
  item: { type: "string", enum: ["one", "two"] },
  node: {
    type: "object",
    properties: { value: { $ref: "#/$defs/item" }, next: { anyOf: [{ $ref: "#/$defs/node" }, NULL] } },
    required: ["value"],
    additionalProperties: false,
  },
};

export function randomTools(random: Random): readonly ChatTool[] {
  return TOOL_NAMES.slice(0, 1 + random.below(3)).map((name) => ({
    type: "function",
    function: { name, description: `Runs ${name}`, parameters: parametersSchema(random) },
  }));
}

/** Half of them refer: into the definitions, to themselves, or to one of their properties. */
function parametersSchema(random: Random): Schema {
  const schema = objectSchema(random, 0);
  if (random.below(2) === 0) return schema;
  const properties: Schema = { ...Object(schema.properties), ref: random.pick(REFERENCES)(schema) };
  return { ...schema, properties, $defs: DEFINITIONS };
}

const REFERENCES: readonly ((schema: Schema) => Schema)[] = [
  () => ({ $ref: "#/$defs/item" }),
  () => ({ $ref: "#/$defs/node" }),
  () => ({ anyOf: [{ $ref: "#" }, NULL] }),
  (schema) => {
    const [name] = Object.keys(Object(schema.properties));
    return { $ref: name === undefined ? "#/$defs/item" : `#/properties/${name}` };
  },
  () => ({ type: "array", items: { $ref: "#/$defs/node" }, minItems: 0, maxItems: 2 }),
];

function randomSchema(random: Random, depth: number): Schema {
  const leaves = [stringSchema, integerSchema, numberSchema, enumSchema, patternSchema, () => ({ type: "boolean" })];
  const nested = [objectSchema, arraySchema, unionSchema, mapSchema];
  return random.pick(depth < MAX_DEPTH ? [...leaves, ...nested] : leaves)(random, depth + 1);
}

function objectSchema(random: Random, depth: number): Schema {
  const names = PROPERTY_NAMES.filter(() => random.below(2) === 0);
  const properties = Object.fromEntries(names.map((name) => [name, randomSchema(random, depth)]));
  const required = names.filter(() => random.below(2) === 0);
  return { type: "object", properties, required, additionalProperties: false };
}

/** Any names, one schema. */
function mapSchema(random: Random, depth: number): Schema {
  return { type: "object", additionalProperties: randomSchema(random, depth) };
}

function arraySchema(random: Random, depth: number): Schema {
  const minItems = random.below(2);
  return { type: "array", items: randomSchema(random, depth), minItems, maxItems: minItems + 1 + random.below(2) };
}

function unionSchema(random: Random, depth: number): Schema {
  return { anyOf: [randomSchema(random, depth), random.pick([integerSchema(random), NULL])] };
}

function stringSchema(random: Random): Schema {
  const minLength = random.below(2);
  return { type: "string", minLength, maxLength: minLength + 1 + random.below(8) };
}

function integerSchema(random: Random): Schema {
  const minimum = random.below(200) - 100;
  return { type: "integer", minimum, maximum: minimum + random.below(1000) };
}

function numberSchema(random: Random): Schema {
  const minimum = (random.below(2000) - 1000) / 10;
  return { type: "number", minimum, maximum: minimum + random.below(100) / 4 };
}

function enumSchema(random: Random): Schema {
  return { type: "string", enum: ["celsius", "fahrenheit", "a b", "é"].slice(0, 1 + random.below(4)) };
}

function patternSchema(random: Random): Schema {
  return { type: "string", pattern: random.pick(PATTERNS) };
}
