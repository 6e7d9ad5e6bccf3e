/**
 * Rules of JSON schemas that no grammar here holds: strict schemas may not have them, nor may OpenAI's. Source: OpenAI's guide
 * "Structured model outputs", supported schemas.
 */
import { invalidRequest } from "../api/api-error.ts";
import { isObject, shown } from "../api/schema.ts";

const UNHELD = ["not", "if", "then", "else", "dependentRequired", "dependentSchemas", "contains", "uniqueItems"];
/** Members whose names are a client's own. */
const NAMED = new Set(["properties", "patternProperties", "$defs", "definitions"]);
/** Members that hold values, not schemas. */
const VALUES = new Set(["enum", "const", "default", "examples"]);

/** Longer places are shown by their end. */
const MAX_SHOWN = 20;

interface Place {
  readonly value: unknown;
  readonly name: string;
  readonly parent: Place | undefined;
  /** Its members have a client's own names. */
  readonly isNamed: boolean;
}

/** OpenAI's words for a fault; undefined: none. Without recursion, since a client's schema may be deep. */
function strictFault(schema: unknown): string | undefined {
  const places: Place[] = [{ value: schema, name: "", parent: undefined, isNamed: false }];
  for (let place = places.pop(); place !== undefined; place = places.pop()) {
    const found = place.isNamed ? undefined : unheldRule(place.value);
    if (found !== undefined) return `In context=(${contextOf(place)}), '${found}' is not permitted.`;
    for (const inner of innerPlaces(place)) places.push(inner);
  }
  return undefined;
}

function unheldRule(value: unknown): string | undefined {
  return isObject(value) ? UNHELD.find((rule) => Object.hasOwn(value, rule)) : undefined;
}

function innerPlaces(parent: Place): readonly Place[] {
  const { value, isNamed } = parent;
  if (Array.isArray(value)) {
    return value.map((each: unknown, i) => ({ value: each, name: String(i), parent, isNamed: false }));
  }
  if (!isObject(value)) return [];
  const members = Object.entries(value).filter(([name]) => isNamed || !VALUES.has(name));
  return members.map(([name, each]) => ({ value: each, name, parent, isNamed: !isNamed && NAMED.has(name) }));
}

function contextOf(place: Place): string {
  const names: string[] = [];
  for (let at: Place = place; at.parent !== undefined && names.length < MAX_SHOWN; at = at.parent) {
    names.push(`'${shown(at.name)}'`);
  }
  return names.reverse().join(", ");
}

/** For a schema that says of itself that it is strict. @throws ApiError */
export function expectStrict(schema: unknown, of: string, param: string, code: string | null): void {
  const fault = strictFault(schema);
  if (fault !== undefined) throw invalidRequest(param, code, `Invalid schema for ${of}: ${fault}`);
}
