/** Which layers see a window of the last keys only: as config.json lists them, or by the rule of the architecture. */
import type { HfFields } from "../../formats/hf/config-fields.ts";
import type { WindowRule } from "./architecture.ts";
import type { DecoderConfig } from "./decoder-config.ts";

const MAX_WINDOW = 1 << 30;
const MAX_PERIOD = 4096;

/** One window per layer; undefined for layers that see everything. */
export function layerWindows(fields: HfFields, rule: WindowRule, numLayers: number): (number | undefined)[] {
  if (rule.kind === "none") return Array.from({ length: numLayers }, () => undefined);
  const isSliding =
    rule.kind === "layers"
      ? Array.from({ length: numLayers }, (_, i) => rule.has(i))
      : slidingLayers(fields, rule, numLayers);
  if (!isSliding.includes(true)) return isSliding.map(() => undefined);
  const window = fields.int("sliding_window", { min: 1, max: MAX_WINDOW });
  return isSliding.map((slides) => (slides ? window : undefined));
}

/** A decoder whose layers see no more than `sizes`, given in turn over the layers: what a user sets on top of the model. */
export function narrowWindows(config: DecoderConfig, sizes: readonly number[] = []): DecoderConfig {
  if (sizes.length === 0) return config;
  const layers = config.layers.map((layer, i) => {
    const size = sizes[i % sizes.length] ?? config.maxPositions;
    const window = Math.min(size, layer.window ?? config.maxPositions);
    return { ...layer, window: window < config.maxPositions ? window : layer.window };
  });
  return { ...config, layers };
}

/** How far back any layer looks; undefined when one sees everything. */
export function widestWindow({ layers }: Pick<DecoderConfig, "layers">): number | undefined {
  let widest = 0;
  for (const { window } of layers) {
    if (window === undefined) return undefined;
    widest = Math.max(widest, window);
  }
  return widest === 0 ? undefined : widest;
}

type SomeRule = Exclude<WindowRule, { readonly kind: "none" | "layers" }>;

function slidingLayers(fields: HfFields, rule: SomeRule, numLayers: number): boolean[] {
  const listed = fields.get("layer_types");
  if (listed !== undefined) return fromList(fields, listed, numLayers);
  const slides = ruleOf(fields, rule);
  return Array.from({ length: numLayers }, (_, i) => slides(i));
}

function fromList(fields: HfFields, listed: unknown, numLayers: number): boolean[] {
  const kinds = ["full_attention", "sliding_attention"];
  if (Array.isArray(listed) && listed.length === numLayers && listed.every((kind) => kinds.includes(kind)))
    return listed.map((kind) => kind === "sliding_attention");
  throw fields.refusal("layer_types", `${numLayers} times "${kinds.join('" or "')}"`, listed);
}

function ruleOf(fields: HfFields, rule: SomeRule): (layer: number) => boolean {
  if (rule.kind === "from-layer") {
    if (!fields.boolean(rule.isOnField, false)) return () => false;
    const first = fields.int(rule.field, { min: 0, max: MAX_PERIOD });
    return (layer) => layer >= first;
  }
  if (fields.get("sliding_window") === undefined) return () => false;
  if (rule.kind === "all") return () => true;
  const { field, n, offset = 0 } = rule;
  const period = field === undefined ? n : fields.int(field, { min: 1, max: MAX_PERIOD, default: n });
  return (layer) => (layer + 1 + period - offset) % period !== 0;
}
