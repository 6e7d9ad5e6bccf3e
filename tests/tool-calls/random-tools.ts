/** Tools with random schemas: nested objects, enums, unions, bounded numbers, patterns. The same for the same seed. */
import type { ChatTool } from "@nereid/server/chat/chat-contract";
import type { Random } from "../support/random.ts";
import type { Schema } from "./check-value.ts";

const TOOL_NAMES = ["get_weather", "search", "write_file", "sum"];
const PROPERTY_NAMES = ["city", "days_count", "unit", "x1", "text", "list"];
const PATTERNS = ["^[a-z]{1,4}$", "^\\d{2}-\\d{2}$", "^(north|south)-[1-9]$"];
const MAX_DEPTH = 2;

export function randomTools(random: Random): readonly ChatTool[] {
  return TOOL_NAMES.slice(0, 1 + random.below(3)).map((name) => ({
    type: "function",
    function: { name, description: `Runs ${name}`, parameters: objectSchema(random, 0) },
  }));
}

function randomSchema(random: Random, depth: number): Schema {
  const leaves = [stringSchema, integerSchema, enumSchema, patternSchema, () => ({ type: "boolean" })];
  const nested = [objectSchema, arraySchema, unionSchema];
  return random.pick(depth < MAX_DEPTH ? [...leaves, ...nested] : leaves)(random, depth + 1);
}

function objectSchema(random: Random, depth: number): Schema {
  const names = PROPERTY_NAMES.filter(() => random.below(2) === 0);
  const properties = Object.fromEntries(names.map((name) => [name, randomSchema(random, depth)]));
  const required = names.filter(() => random.below(2) === 0);
  return { type: "object", properties, required, additionalProperties: false };
}

function arraySchema(random: Random, depth: number): Schema {
  const minItems = random.below(2);
  return { type: "array", items: randomSchema(random, depth), minItems, maxItems: minItems + 1 + random.below(2) };
}

function unionSchema(random: Random, depth: number): Schema {
  return { anyOf: [randomSchema(random, depth), integerSchema(random)] };
}

function stringSchema(random: Random): Schema {
  const minLength = random.below(2);
  return { type: "string", minLength, maxLength: minLength + 1 + random.below(8) };
}

function integerSchema(random: Random): Schema {
  const minimum = random.below(200) - 100;
  return { type: "integer", minimum, maximum: minimum + random.below(1000) };
}

function enumSchema(random: Random): Schema {
  return { type: "string", enum: ["celsius", "fahrenheit", "a b", "é"].slice(0, 1 + random.below(4)) };
}

function patternSchema(random: Random): Schema {
  return { type: "string", pattern: random.pick(PATTERNS) };
}
