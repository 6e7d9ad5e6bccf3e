/** Llama models of any size with random weights, over the vocabulary of the example model. Format: safetensors README. */
import { closeSync, copyFileSync, mkdirSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export interface ModelShape {
  readonly name: string;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
}

export type StoredType = "bf16" | "f16" | "f32";

const EXAMPLE = fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url));
const CHUNK_BYTES = 2 ** 20;
/** Names of safetensors and of config.json, and bytes. */
const TYPES: Readonly<Record<StoredType, { dtype: string; torch: string; bytes: number }>> = {
  bf16: { dtype: "BF16", torch: "bfloat16", bytes: 2 },
  f16: { dtype: "F16", torch: "float16", bytes: 2 },
  f32: { dtype: "F32", torch: "float32", bytes: 4 },
};

/** Bytes of the weights. */
export function writeModel(folder: string, shape: ModelShape, type: StoredType): number {
  mkdirSync(folder, { recursive: true });
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) copyFileSync(join(EXAMPLE, name), join(folder, name));
  const example = JSON.parse(readFileSync(join(EXAMPLE, "config.json"), "utf8")) as { readonly vocab_size: number };
  const config = {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: shape.hiddenSize,
    intermediate_size: shape.intermediateSize,
    num_hidden_layers: shape.numLayers,
    num_attention_heads: shape.numHeads,
    num_key_value_heads: shape.numKvHeads,
    max_position_embeddings: 2048,
    hidden_act: "silu",
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    tie_word_embeddings: false,
    vocab_size: example.vocab_size,
    bos_token_id: 1,
    eos_token_id: 2,
    torch_dtype: TYPES[type].torch,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  return writeWeights(join(folder, "model.safetensors"), tensorsOf(shape, example.vocab_size), type);
}

function tensorsOf(
  shape: ModelShape,
  vocabSize: number,
): readonly (readonly [name: string, dims: readonly number[]])[] {
  const { hiddenSize, intermediateSize, numHeads, numKvHeads } = shape;
  const kvSize = (hiddenSize / numHeads) * numKvHeads;
  const layers = Array.from({ length: shape.numLayers }, (_, i) => {
    const at = `model.layers.${i}.`;
    return [
      [`${at}input_layernorm.weight`, [hiddenSize]],
      [`${at}post_attention_layernorm.weight`, [hiddenSize]],
      [`${at}self_attn.q_proj.weight`, [hiddenSize, hiddenSize]],
      [`${at}self_attn.k_proj.weight`, [kvSize, hiddenSize]],
      [`${at}self_attn.v_proj.weight`, [kvSize, hiddenSize]],
      [`${at}self_attn.o_proj.weight`, [hiddenSize, hiddenSize]],
      [`${at}mlp.gate_proj.weight`, [intermediateSize, hiddenSize]],
      [`${at}mlp.up_proj.weight`, [intermediateSize, hiddenSize]],
      [`${at}mlp.down_proj.weight`, [hiddenSize, intermediateSize]],
    ] as const;
  });
  return [
    ["model.embed_tokens.weight", [vocabSize, hiddenSize]],
    ...layers.flat(),
    ["model.norm.weight", [hiddenSize]],
    ["lm_head.weight", [vocabSize, hiddenSize]],
  ];
}

/** The same numbers over and over: their values do not change the memory. */
function writeWeights(path: string, tensors: ReturnType<typeof tensorsOf>, type: StoredType): number {
  const { dtype, bytes } = TYPES[type];
  let at = 0;
  const header: Record<string, unknown> = {};
  for (const [name, shape] of tensors) {
    const end = at + bytes * shape.reduce((product, size) => product * size, 1);
    header[name] = { dtype, shape, data_offsets: [at, end] };
    at = end;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  // bf16 from 0.0078 to 0.0156, with both signs; near 1 as f16, and as two of them in f32 as small.
  const chunk = Uint16Array.from(
    { length: CHUNK_BYTES / Uint16Array.BYTES_PER_ELEMENT },
    (_, i) => 0x3c00 + ((i * 37) % 128) + ((i * 7) % 2) * 0x8000,
  );
  const file = openSync(path, "w");
  writeSync(file, length);
  writeSync(file, text);
  for (let left = at; left > 0; left -= CHUNK_BYTES) writeSync(file, chunk, 0, Math.min(left, CHUNK_BYTES));
  closeSync(file);
  return at;
}
