/** Reads which layers have a state, where config.json lists the kinds of all layers. */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";

const MAX_LAYERS = 4096;
const ATTENTION: readonly unknown[] = ["full_attention", "attention"];

/**
 * `kinds`: names of layers with a state. Undefined when the field is not set.
 * @throws Error for a list of another length, or with another kind of layer
 */
export function listedRecurrent(
  fields: HfFields,
  name: string,
  kinds: readonly unknown[],
): ((layer: number) => boolean) | undefined {
  const listed = fields.get(name);
  if (listed === undefined) return undefined;
  const count = fields.int("num_hidden_layers", { min: 1, max: MAX_LAYERS });
  const isKnown = (kind: unknown): boolean => kinds.includes(kind) || ATTENTION.includes(kind);
  if (Array.isArray(listed) && listed.length === count && listed.every(isKnown))
    return (layer) => kinds.includes(listed[layer]);
  throw fields.refusal(name, `${count} times ${kinds.join(" or ")}, or full_attention`, listed);
}
