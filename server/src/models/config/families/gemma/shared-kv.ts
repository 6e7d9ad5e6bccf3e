/** Reads which layers read the keys and values of others. Source: transformers, configuration_gemma4.py and modeling_gemma3n.py. */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";

export type LayerKinds = readonly ("full_attention" | "sliding_attention")[];

const MAX_LAYERS = 4096;

/** The kind of each layer: as listed, or every nth without a window. The list itself is checked where windows are read. */
export function layerKinds(fields: HfFields, period: number): LayerKinds {
  const listed = fields.get("layer_types");
  const count = fields.int("num_hidden_layers", { min: 1, max: MAX_LAYERS });
  return Array.from({ length: count }, (_, layer) => {
    const isFull = Array.isArray(listed) ? listed[layer] === "full_attention" : (layer + 1) % period === 0;
    return isFull ? "full_attention" : "sliding_attention";
  });
}

/**
 * The last `num_kv_shared_layers` layers read those of the last layer of their kind in front of them; undefined: a layer has
 * its own.
 */
export function sharedSources(fields: HfFields, kinds: LayerKinds): readonly (number | undefined)[] {
  const count = fields.int("num_kv_shared_layers", { min: 0, max: kinds.length - 1, default: 0 });
  const first = kinds.length - count;
  return kinds.map((kind, layer) => {
    if (layer < first) return undefined;
    const source = kinds.lastIndexOf(kind, first - 1);
    if (source >= 0) return source;
    throw fields.refusal("num_kv_shared_layers", `a layer of ${kind} in front of them`, count);
  });
}
