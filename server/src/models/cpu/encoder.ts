/** The pass of an encoder in front of a decoder: its rows become keys and values of each layer's attention to it. */
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { recordStoreKv } from "../../../kernels/store-kv/store-kv.ggml.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import { walkDecoder } from "../decoder/walk-decoder.ts";
import { numDecoderTensors } from "./decoder.ts";
import type { DecoderModel, LayerCache } from "./decoder-model.ts";
import { CpuDecoderOps } from "./decoder-ops.ts";

/** Input of an encoder: ids of a text, or [count, numMels] frames of sound. */
export type EncoderRows =
  | { readonly kind: "tokens"; readonly tokens: Int32Array }
  | { readonly kind: "frames"; readonly frames: Float32Array; readonly numRows: number };

const TENSORS_PER_LAYER = 12;
const TENSORS_OF_STEM = 40;

/** Room that `recordEncoder()` needs in its graph. */
export function numEncoderTensors({ config }: DecoderModel, decoder: DecoderModel, numRows: number): number {
  const own = numDecoderTensors(config, [wholeSequence(numRows)]);
  return own + TENSORS_OF_STEM + TENSORS_PER_LAYER * decoder.config.numLayers;
}

/** Fills `memory`, a cache of as many rows as the input has for each layer of the decoder. */
export function recordEncoder(
  graph: CpuGraph,
  { encoder, decoder }: { readonly encoder: DecoderModel; readonly decoder: DecoderModel },
  rows: EncoderRows,
  memory: readonly LayerCache[],
): void {
  const numRows = rows.kind === "tokens" ? rows.tokens.length : rows.numRows;
  const count = Int32Array.from({ length: numRows }, (_, i) => i);
  const batch = {
    tokenIds: rows.kind === "tokens" ? rows.tokens : new Int32Array(numRows),
    frames: rows.kind === "frames" ? rows.frames : undefined,
    positions: count,
    slots: count,
    sequences: [wholeSequence(numRows)],
    logitRows: count,
    blockSize: 1,
  };
  const hidden = walkDecoder(new CpuDecoderOps(graph, encoder, batch), encoder);
  if (hidden === undefined) throw new Error("an encoder of no rows");
  const slots = graph.input("i32", [numRows], count);
  for (const [i, { cross }] of decoder.weights.layers.entries()) {
    if (cross === undefined) continue;
    const { keys, values } = expectAt(memory, i);
    const source = recordLinear(graph, { x: hidden, ...cross.keyValue });
    recordStoreKv(graph, { cache: keys, source, slots, column: 0 });
    recordStoreKv(graph, { cache: values, source, slots, column: keys.shape[1] ?? 0 });
  }
}

function wholeSequence(numRows: number) {
  const blockTable = Int32Array.from({ length: numRows }, (_, i) => i);
  return { queryStart: 0, queryLength: numRows, contextLength: numRows, blockTable };
}
