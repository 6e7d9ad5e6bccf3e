/**
 * Files of encoder-decoders as one form: fields that older releases left to the code, and tensors that a model has and its files
 * leave out. Source: transformers, modeling_t5.py, modeling_bart.py and modeling_whisper.py.
 */
import { isObject, type JsonObject } from "../../core/json-object.ts";
import { expectTensorRange, type StoredTensor, type TensorSource, tensorBytes } from "../tensors/tensor-source.ts";

/** Classes that take an encoder's input. */
const T5_CLASSES: readonly unknown[] = ["T5", "MT5", "UMT5"].map((family) => `${family}ForConditionalGeneration`);
const BART_CLASSES: readonly unknown[] = ["Bart", "MBart"].map((family) => `${family}ForConditionalGeneration`);
const LOGITS_BIAS = "final_logits_bias";
const KEY_WEIGHT = /^(.*(?:self_attn|encoder_attn)\.k_proj)\.weight$/;

export interface EncoderDecoderFiles {
  readonly config: unknown;
  readonly tensors: TensorSource;
}

/** The same files for other classes. Takes the tensors over. */
export function completeEncoderDecoder(config: unknown, tensors: TensorSource): EncoderDecoderFiles {
  if (!isObject(config)) return { config, tensors };
  const [className] = Array.isArray(config.architectures) ? (config.architectures as unknown[]) : [];
  if (T5_CLASSES.includes(className)) return { config: t5Config(config, tensors), tensors };
  if (BART_CLASSES.includes(className)) return withLogitsBias(config, tensors);
  if (className === "WhisperForConditionalGeneration") return { config, tensors: withZeroBiases(tensors) };
  return { config, tensors };
}

/** Rows are scaled where the file ties its tables; the output table is its own where the file has one. */
function t5Config(config: JsonObject, { tensors }: TensorSource): JsonObject {
  return {
    ...config,
    num_decoder_layers: config.num_decoder_layers ?? config.num_layers,
    scale_decoder_outputs: config.scale_decoder_outputs ?? config.tie_word_embeddings !== false,
    tie_word_embeddings: !tensors.has("lm_head.weight"),
  };
}

/** A buffer of [1, vocabulary] is the bias of the output table. */
function withLogitsBias(config: JsonObject, tensors: TensorSource): EncoderDecoderFiles {
  const stored = tensors.tensors.get(LOGITS_BIAS);
  if (stored === undefined) return { config, tensors };
  const bias = { ...stored, name: "lm_head.bias", shape: [stored.shape.at(-1) ?? 0] };
  const all = new Map([...tensors.tensors, [bias.name, bias]]);
  const read: TensorSource["read"] = (name, into, byteOffset) =>
    tensors.read(name === bias.name ? LOGITS_BIAS : name, into, byteOffset);
  return {
    config: { ...config, has_final_logits_bias: true },
    tensors: { tensors: all, read, close: () => tensors.close() },
  };
}

/** Keys have no bias in the files, and queries and values do. */
function withZeroBiases(files: TensorSource): TensorSource {
  const zeros = new Map<string, StoredTensor>();
  for (const { name, shape } of files.tensors.values()) {
    const module = KEY_WEIGHT.exec(name)?.[1];
    if (module === undefined || files.tensors.has(`${module}.bias`)) continue;
    const own = [shape[0] ?? 0];
    zeros.set(`${module}.bias`, {
      name: `${module}.bias`,
      dtype: "F32",
      shape: own,
      byteLength: tensorBytes("F32", own),
    });
  }
  return {
    tensors: new Map([...files.tensors, ...zeros]),
    read: async (name, into, byteOffset = 0) => {
      if (!zeros.has(name)) return files.read(name, into, byteOffset);
      expectTensorRange(zeros, name, into.byteLength, byteOffset);
      into.fill(0);
    },
    close: () => files.close(),
  };
}
