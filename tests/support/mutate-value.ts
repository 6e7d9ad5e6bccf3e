/**
 * Breaks JSON values at a place that keeps the rest valid, so that the fault reaches behind the parser: other types, huge
 * numbers, deep nesting, lone surrogates, NUL, names of prototypes, long and empty lists. Knows no protocol.
 */
import type { Random } from "./random.ts";

type Json = unknown;
type Slot = readonly [holder: Record<string, Json> | Json[], key: string | number];

const LONG = 300;
const DEEP = 120;

const VALUES: readonly ((random: Random) => Json)[] = [
  () => null,
  () => true,
  () => 0,
  () => -1,
  () => 1.5,
  () => Number.MAX_VALUE,
  () => Number.MIN_SAFE_INTEGER,
  () => 2 ** 31,
  () => 2 ** 53,
  () => 1e-320,
  () => "",
  () => "\0",
  () => "\ud800",
  () => "a\udc00b",
  () => "__proto__",
  () => "{{ '' }}{% for i in range(9) %}",
  () => "<tool_call>",
  () => "data:image/png;base64,iVBORw0KGgo",
  () => "http://127.0.0.1:1/x.png",
  () => "[".repeat(LONG),
  () => [],
  () => ({}),
  () => [[[]]],
  () => [null],
  () => ({ type: "text" }),
  () => ({ type: "function", function: {} }),
  () => ({ toString: 1, valueOf: null, constructor: { prototype: {} } }),
  () => JSON.parse('{"__proto__": {"polluted": 1}}'),
  (random) => nested(random.below(DEEP), random.below(2) === 0),
  (random) => "x".repeat(random.below(LONG)),
  (random) => Array.from({ length: random.below(LONG) }, () => random.pick(["a", 1, null, {}])),
  (random) => String.fromCharCode(random.below(0x1_0000), random.below(0x1_0000)),
];

/** One to three changes of a copy, the same for the same random numbers. */
export function mutateValue(value: Json, random: Random): Json {
  const root = { value: structuredClone(value) };
  for (let left = 1 + random.below(3); left > 0; left -= 1) {
    const slots = slotsOf(root);
    const [holder, key] = random.pick(slots);
    change(holder, key, slots, random);
  }
  return root.value;
}

function change(
  holder: Record<string, Json> | Json[],
  key: string | number,
  slots: readonly Slot[],
  random: Random,
): void {
  const value: Json = Reflect.get(holder, key);
  switch (random.below(8)) {
    case 0:
      Reflect.deleteProperty(holder, key);
      break;
    case 1: // another part of the document
      Reflect.set(holder, key, structuredClone(Reflect.get(...random.pick(slots))));
      break;
    case 2: // wrapped
      Reflect.set(holder, key, random.below(2) === 0 ? [value] : { [String(key)]: value });
      break;
    case 3: // repeated
      Reflect.set(
        holder,
        key,
        Array.from({ length: 1 + random.below(20) }, () => structuredClone(value)),
      );
      break;
    default:
      Reflect.set(holder, key, random.pick(VALUES)(random));
  }
}

function slotsOf(root: { value: Json }): Slot[] {
  const slots: Slot[] = [[root, "value"]];
  for (let i = 0; i < slots.length && i < LONG; i++) {
    const slot = slots[i];
    const value: Json = slot === undefined ? undefined : Reflect.get(...slot);
    if (Array.isArray(value)) for (const at of value.keys()) slots.push([value, at]);
    else if (isRecord(value)) for (const name of Object.keys(value)) slots.push([value, name]);
  }
  return slots;
}

function isRecord(value: Json): value is Record<string, Json> {
  return typeof value === "object" && value !== null;
}

function nested(depth: number, isList: boolean): Json {
  let value: Json = 1;
  for (let i = 0; i < depth; i++) value = isList ? [value] : { properties: { a: value } };
  return value;
}
