/** Breaks JSON as text, or its values so that it stays JSON: half of each. */
import { mutateJson } from "../../support/mutate-json.ts";
import { mutateValue } from "../../support/mutate-value.ts";
import type { Random } from "../../support/random.ts";

export function mutateJsonOrValue(json: Buffer, random: Random): Buffer {
  return random.below(2) === 0 ? mutateJson(json.toString(), random) : mutateJsonValue(json, random);
}

/** The result is JSON again. */
export function mutateJsonValue(json: Buffer, random: Random): Buffer {
  // Undefined has no JSON.
  return Buffer.from(JSON.stringify(mutateValue(JSON.parse(json.toString()), random)) ?? "null");
}
