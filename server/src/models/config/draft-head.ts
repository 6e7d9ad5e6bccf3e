/**
 * Draft heads: one layer that reads hidden states of the model it drafts for. EAGLE-3 (Li et al. 2025), in the layout of
 * yuhuili/EAGLE3-LLaMA3.1-Instruct-8B and SpecForge; multi-token prediction of DeepSeek-V3 (section 2.2 of its report), in
 * the layout of its checkpoint. Source of the order of operations: vLLM, llama_eagle3.py and deepseek_mtp.py.
 */
import type { HfConfigFiles } from "../../formats/hf/config.ts";
import { HfFields } from "../../formats/hf/config-fields.ts";
import type { WeightNames } from "../../formats/hf/weight-names.ts";
import type { DecoderConfig } from "./decoder-config.ts";
import { type ParsedDecoder, parseDecoderConfig } from "./parse-decoder-config.ts";

/** Rows of the model that a head reads: its residual stream in front of these layers, or its output behind the norm. */
export type ObservedRows = { readonly layers: readonly number[] } | "output";

/** Modules in front of and behind the layer. */
export interface HeadNames {
  /** Prefix of the layer's modules. */
  readonly layer: string;
  readonly embeddingNorm: string;
  readonly hiddenNorm: string;
  /** EAGLE-3: from the observed rows to a hidden state. MTP: from embedding and hidden state to the layer's input. */
  readonly join: string;
  readonly norm: string;
}

export interface DraftHeadConfig {
  readonly kind: "eagle3" | "mtp";
  /** A decoder of the one layer; its vocabulary is that of the head's own output. */
  readonly config: DecoderConfig;
  readonly weights: WeightNames;
  readonly names: HeadNames;
  readonly observed: ObservedRows;
  /** The output and the map of its rows to tokens are the head's own; absent: the output is the model's. */
  readonly hasOwnOutput: boolean;
}

/** Fields of EAGLE-3 heads that say nothing about the layer. */
const EAGLE_FIELDS = [
  "draft_vocab_size",
  "target_hidden_size",
  "target_model_type",
  "eagle_config",
  "num_aux_hidden_states",
];
const EAGLE_NAMES: HeadNames = {
  layer: "midlayer.",
  embeddingNorm: "midlayer.input_layernorm",
  hiddenNorm: "midlayer.hidden_norm",
  join: "fc",
  norm: "norm",
};
const SIZE = { min: 1, max: 1 << 24 } as const;

/** Whether a config.json is that of an EAGLE-3 head. */
export function isEagleHead(config: unknown): boolean {
  const [name] = (config as { readonly architectures?: readonly unknown[] } | null)?.architectures ?? [];
  return typeof name === "string" && /Eagle3/i.test(name);
}

/** @throws Error naming file and field, for heads of other models than `target` too */
export function parseEagleHead(files: HfConfigFiles, target: DecoderConfig): DraftHeadConfig {
  const { config, at } = files;
  const fields = new HfFields(config, at.config);
  const [name] = (config as { readonly architectures: readonly unknown[] }).architectures;
  if (!/^Llama.*Eagle3$/i.test(String(name))) throw fields.refusal("architectures", "LlamaForCausalLMEagle3", [name]);
  const vocabSize = fields.int("vocab_size", SIZE);
  const draftVocabSize = fields.int("draft_vocab_size", { min: 1, max: vocabSize, default: vocabSize });
  const unused = Object.fromEntries(EAGLE_FIELDS.map((field) => [field, undefined]));
  const plain = {
    ...(config as Readonly<Record<string, unknown>>),
    ...unused,
    architectures: ["LlamaForCausalLM"],
    vocab_size: draftVocabSize,
    bos_token_id: undefined,
    eos_token_id: undefined,
    pad_token_id: undefined,
    tie_word_embeddings: false,
  };
  const { config: layer, weights } = parseDecoderConfig({ ...files, config: plain, generation: undefined });
  if (layer.numLayers !== 1) throw fields.refusal("num_hidden_layers", "1", layer.numLayers);
  if (vocabSize !== target.vocabSize)
    throw fields.refusal("vocab_size", `${target.vocabSize} as the model's`, vocabSize);
  if (layer.hiddenSize !== target.hiddenSize)
    throw fields.refusal("hidden_size", `${target.hiddenSize} as the model's`, layer.hiddenSize);
  return {
    kind: "eagle3",
    config: layer,
    weights: withoutAttentionNorm(weights),
    names: EAGLE_NAMES,
    observed: { layers: observedLayers(fields, config, target.numLayers, at.config) },
    hasOwnOutput: true,
  };
}

/** The layer reads two rows behind each other that are normalized before. */
function withoutAttentionNorm({ attentionNorm: _, ...weights }: WeightNames): WeightNames {
  return weights;
}

/** A low, a middle and a high layer, unless the file names others. */
function observedLayers(fields: HfFields, config: unknown, numLayers: number, at: string): readonly number[] {
  const { eagle_config: eagle } = config as { readonly eagle_config?: { eagle_aux_hidden_state_layer_ids?: unknown } };
  const named = eagle?.eagle_aux_hidden_state_layer_ids;
  const usual = [2, Math.floor(numLayers / 2), numLayers - 3];
  if (named === undefined || named === null) {
    if (numLayers > 3) return usual;
    throw new Error(`${at}: an EAGLE-3 head reads hidden states of a model of 4 layers at least, got ${numLayers}`);
  }
  const isRight =
    Array.isArray(named) &&
    named.length === usual.length &&
    named.every((layer) => Number.isSafeInteger(layer) && layer >= 0 && layer < numLayers);
  if (isRight) return named as readonly number[];
  throw fields.refusal("eagle_config.eagle_aux_hidden_state_layer_ids", `3 layers below ${numLayers}`, named);
}

/** The layer behind the model's own that predicts one token further. @throws Error for models whose files have none */
export function parseMtpHead(
  { config, weights }: ParsedDecoder,
  has: (tensor: string) => boolean,
  path: string,
): DraftHeadConfig {
  const layer = `model.layers.${config.numLayers}.`;
  const join = `${layer}eh_proj`;
  if (!has(`${join}.weight`))
    throw new Error(`${path}: the model has no layer of multi-token prediction: expected a tensor ${join}.weight`);
  const last = config.layers.at(-1);
  return {
    kind: "mtp",
    config: Object.freeze({
      ...config,
      numLayers: 1,
      layers: last === undefined ? [] : [last],
      tieWordEmbeddings: false,
    }),
    weights: { ...weights, layer },
    names: {
      layer,
      embeddingNorm: `${layer}enorm`,
      hiddenNorm: `${layer}hnorm`,
      join,
      norm: `${layer}shared_head.norm`,
    },
    observed: "output",
    hasOwnOutput: false,
  };
}
