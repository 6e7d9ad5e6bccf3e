/** BERT (Devlin et al. 2019) and models with its layout (MiniLM, sentence encoders) as an ONNX graph. */

import { ToolError } from "@nereid/server/files/tool-error";
import type { HfFields } from "@nereid/server/formats/hf/config-fields";
import { ONNX_TYPES } from "@nereid/server/formats/onnx/writer";
import type { Safetensors } from "@nereid/server/formats/tensors/safetensors";
import { EncoderWeights } from "./encoder-weights.ts";
import { type BuiltGraph, GraphBuilder } from "./graph-builder.ts";
import {
  activationOf,
  attention,
  type EncoderContext,
  expectHeads,
  layerNorm,
  linear,
  paddingMask,
} from "./transformer-graph.ts";

/** Pooling of token states to one vector. */
export interface Pooling {
  readonly mode: "mean" | "cls";
  /** Normalise to unit length. */
  readonly isNormalized: boolean;
}

const MAX_SIZE = 1 << 20;
const BATCH = "batch_size";
const SEQUENCE = "sequence_length";

/** `pooling` undefined: the states of all tokens are the only output. */
export function buildBert(source: Safetensors, config: HfFields, pooling: Pooling | undefined): BuiltGraph {
  refuseOtherPositions(config);
  const graph = new GraphBuilder();
  const weights = new EncoderWeights(source, ["", "bert."], "embeddings.word_embeddings.weight");
  const size = (name: string, byDefault: number): number =>
    config.int(name, { min: 1, max: MAX_SIZE, default: byDefault });
  const context: EncoderContext = {
    graph,
    weights,
    sizes: {
      hidden: size("hidden_size", 768),
      intermediate: size("intermediate_size", 3072),
      numHeads: expectHeads(size("num_attention_heads", 12), size("hidden_size", 768)),
      epsilon: config.positive("layer_norm_eps", 1e-12),
      activation: activationOf(config.get("hidden_act") ?? "gelu"),
    },
  };
  const token = (name: string): string => graph.input({ name, type: ONNX_TYPES.INT64, dims: [BATCH, SEQUENCE] });
  const [ids, attentionMask, types] = [token("input_ids"), token("attention_mask"), token("token_type_ids")];
  let states = embed(context, ids, types);
  graph.enter("encoder");
  const mask = paddingMask(graph, attentionMask);
  for (let layer = 0; layer < size("num_hidden_layers", 12); layer++) {
    graph.enter(`encoder/layer.${layer}`);
    states = bertLayer(context, states, `encoder.layer.${layer}`, mask);
  }
  const { hidden } = context.sizes;
  graph.output(states, { name: "last_hidden_state", type: ONNX_TYPES.FLOAT, dims: [BATCH, SEQUENCE, hidden] });
  if (pooling !== undefined) {
    graph.enter("pooling");
    const vector = pool(graph, states, attentionMask, pooling);
    graph.output(vector, { name: "sentence_embedding", type: ONNX_TYPES.FLOAT, dims: [BATCH, hidden] });
  }
  return graph.build();
}

function refuseOtherPositions(config: HfFields): void {
  const kind = config.get("position_embedding_type") ?? "absolute";
  if (kind === "absolute") return;
  throw new ToolError(`config.json: position_embedding_type: expected absolute, got ${kind}`, {
    fix: "Export this model with Hugging Face's own tools",
  });
}

function embed(context: EncoderContext, ids: string, types: string): string {
  const { graph, weights, sizes } = context;
  graph.enter("embeddings");
  const table = (name: string): string => {
    const { name: fullName, dims, data } = weights.get(`embeddings.${name}.weight`, [-1, sizes.hidden]);
    return graph.weight(fullName, dims, data);
  };
  const words = graph.node("Gather", [table("word_embeddings"), ids]);
  const kinds = graph.node("Gather", [table("token_type_embeddings"), types]);
  const positions = graph.node("Slice", [
    table("position_embeddings"),
    graph.ints([0]),
    graph.sizes(ids, 1, 2),
    graph.ints([0]),
  ]);
  const sum = graph.node("Add", [graph.node("Add", [words, kinds]), positions]);
  return layerNorm(context, sum, "embeddings.LayerNorm");
}

function bertLayer(context: EncoderContext, states: string, name: string, mask: string): string {
  const { graph, sizes } = context;
  const names = {
    query: `${name}.attention.self.query`,
    key: `${name}.attention.self.key`,
    value: `${name}.attention.self.value`,
    out: `${name}.attention.output.dense`,
  };
  const mixed = graph.node("Add", [attention(context, states, names, mask), states]);
  const afterAttention = layerNorm(context, mixed, `${name}.attention.output.LayerNorm`);
  const wide = linear(context, afterAttention, `${name}.intermediate.dense`, [sizes.intermediate, sizes.hidden]);
  const active = sizes.activation(graph, wide);
  const narrow = linear(context, active, `${name}.output.dense`, [sizes.hidden, sizes.intermediate]);
  return layerNorm(context, graph.node("Add", [narrow, afterAttention]), `${name}.output.LayerNorm`);
}

function pool(graph: GraphBuilder, states: string, mask: string, { mode, isNormalized }: Pooling): string {
  const vector =
    mode === "cls" ? graph.node("Gather", [states, graph.int(0)], { axis: { int: 1 } }) : mean(graph, states, mask);
  if (!isNormalized) return vector;
  const norm = graph.node("ReduceL2", [vector], { axes: { ints: [-1] }, keepdims: { int: 1 } });
  return graph.node("Div", [vector, graph.node("Max", [norm, graph.float(1e-12)])]);
}

/** Mean over tokens that are not padding. */
function mean(graph: GraphBuilder, states: string, mask: string): string {
  const kept = graph.node("Unsqueeze", [graph.cast(mask, ONNX_TYPES.FLOAT), graph.ints([-1])]);
  const total = (value: string): string => graph.node("ReduceSum", [value, graph.ints([1])], { keepdims: { int: 0 } });
  const count = graph.node("Max", [total(kept), graph.float(1e-9)]);
  return graph.node("Div", [total(graph.node("Mul", [states, kept])), count]);
}
