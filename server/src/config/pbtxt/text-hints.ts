/** Suggestions in errors about unknown names. Pure text over the schema. */
import { type MessageSpec, messageNames, messageSpec } from "../model/schema.ts";
import { nearestName } from "../suggest.ts";

/** Names that other frameworks, or the wire protocol, use for fields with another name here. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ["TYPE_BYTES", "TYPE_STRING"],
  ["BYTES", "TYPE_STRING"],
  ["STRING", "TYPE_STRING"],
  ["TYPE_FLOAT", "TYPE_FP32"],
  ["TYPE_FLOAT32", "TYPE_FP32"],
  ["TYPE_DOUBLE", "TYPE_FP64"],
  ["TYPE_FLOAT64", "TYPE_FP64"],
  ["TYPE_HALF", "TYPE_FP16"],
  ["TYPE_FLOAT16", "TYPE_FP16"],
  ["TYPE_BFLOAT16", "TYPE_BF16"],
  ["TYPE_INT", "TYPE_INT32"],
  ["TYPE_LONG", "TYPE_INT64"],
]);

/** The suggestion for an unknown enumeration name. */
export function enumHint(written: string, values: readonly string[]): string {
  const upper = written.toUpperCase();
  const exact = values.find((value) => value === upper || value === `TYPE_${upper}` || value === `KIND_${upper}`);
  const other = OTHER_NAMES.get(upper);
  const meant = exact ?? (other !== undefined && values.includes(other) ? other : nearestName(written, values));
  const allowed = `allowed values are ${values.join(", ")} (written without quotes)`;
  return meant === undefined ? allowed : `did you mean ${meant}? ${allowed}`;
}

/** `owner` is the message in which the field was written. */
export function unknownFieldHint(written: string, owner: string, spec: MessageSpec): string {
  const place = owner === "ModelConfig" ? "the model configuration" : `'${owner}'`;
  const problem = `${place} has no field '${written}'`;
  const near = nearestName(written, spec.keys());
  if (near !== undefined) return `${problem}; did you mean '${near}'?`;
  const parent = blockOf(written);
  if (parent !== undefined) return `${problem}; it belongs inside '${parent}'`;
  const names = [...spec.keys()];
  return names.length === 0 ? `${problem}; it takes no fields` : `${problem}; its fields are ${names.join(", ")}`;
}

/** The field whose message has a field of that name, if there is only one. */
function blockOf(written: string): string | undefined {
  const owners = messageNames().filter((name) => messageSpec(name).has(written));
  const parents = messageNames().flatMap((name) =>
    [...messageSpec(name).values()].filter(
      (field) => field.value.kind === "message" && owners.includes(field.value.name),
    ),
  );
  return parents.length === 1 ? parents[0]?.name : undefined;
}
