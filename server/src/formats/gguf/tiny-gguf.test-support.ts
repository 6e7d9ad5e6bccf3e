/** Writes a tiny Hugging Face model as GGUF, with matrices in any block type, for tests and benchmarks. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { convertElements, type WeightType } from "../../device/cpu/convert-elements.ts";
import { weightTypeOf } from "../../models/weights/weight-types.ts";
import { GGML_TYPES, openGgml } from "../../native/ggml/ggml.ts";
import { openSafetensors } from "../tensors/safetensors.ts";
import {
  ARRAY,
  F32,
  type GgufField,
  type GgufTensorField,
  ggufBytes,
  STRING,
  U32,
} from "./gguf-writer.test-support.ts";
import { interleavedRow } from "./model.ts";

export interface Tiny {
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: ReadonlyMap<string, { readonly shape: readonly number[]; readonly values: Float32Array }>;
}

export async function readTiny(modelDir: string): Promise<Tiny> {
  const source = await openSafetensors(modelDir);
  const tensors = new Map<string, { shape: readonly number[]; values: Float32Array }>();
  for (const [tensor, { dtype, shape, byteLength }] of source.tensors) {
    const bytes = new Uint8Array(byteLength);
    await source.read(tensor, bytes);
    const wide = convertElements(openGgml(), weightTypeOf(dtype) ?? "f32", "f32", bytes);
    tensors.set(tensor, { shape, values: new Float32Array(wide.buffer) });
  }
  await source.close();
  return { config: JSON.parse(await readFile(join(modelDir, "config.json"), "utf8")), tensors };
}

const GGUF_NAMES: readonly (readonly [from: RegExp, to: string])[] = [
  [/^model\.embed_tokens/, "token_embd"],
  [/^model\.norm/, "output_norm"],
  [/^lm_head/, "output"],
  [/^model\.layers\.(\d+)\./, "blk.$1."],
  [/input_layernorm/, "attn_norm"],
  [/post_attention_layernorm/, "ffn_norm"],
  [/self_attn\.([qkv])_proj/, "attn_$1"],
  [/self_attn\.o_proj/, "attn_output"],
  [/mlp\.(gate|up|down)_proj/, "ffn_$1"],
];

/** Interleaves the two halves of each head's rows. */
function pair(values: Float32Array, shape: readonly number[], headRows: number): Float32Array {
  const [rows = 0, columns = 1] = shape;
  const out = new Float32Array(values.length);
  for (let row = 0; row < rows; row++) {
    const to = row - (row % headRows) + interleavedRow(row % headRows, headRows);
    out.set(values.subarray(row * columns, (row + 1) * columns), to * columns);
  }
  return out;
}

/** `typeOf` gives the type of a matrix; floats when absent. `more`: further metadata, such as a tokenizer. */
export function toGguf(
  { config, tensors }: Tiny,
  architecture: string,
  typeOf: (name: string) => WeightType = () => "f32",
  more: readonly GgufField[] = [],
): Uint8Array {
  const headDim = Number(config.head_dim ?? Number(config.hidden_size) / Number(config.num_attention_heads));
  const key = (name: string): string => `${architecture}.${name}`;
  const rope = config.rope_parameters as { readonly rope_theta: number };
  const fields: GgufField[] = [
    ["general.architecture", STRING, architecture],
    [key("context_length"), U32, config.max_position_embeddings],
    [key("embedding_length"), U32, config.hidden_size],
    [key("block_count"), U32, config.num_hidden_layers],
    [key("feed_forward_length"), U32, config.intermediate_size],
    [key("attention.head_count"), U32, config.num_attention_heads],
    [key("attention.head_count_kv"), U32, config.num_key_value_heads],
    [key("attention.key_length"), U32, headDim],
    [key("attention.value_length"), U32, headDim],
    [key("attention.layer_norm_rms_epsilon"), F32, config.rms_norm_eps],
    [key("rope.freq_base"), F32, rope.rope_theta],
    ...more,
  ];
  const written = [...tensors].map(([name, { shape, values }]): GgufTensorField => {
    const isPaired = architecture === "llama" && /self_attn\.[qk]_proj/.test(name);
    const data = isPaired ? pair(values, shape, headDim) : values;
    const renamed = GGUF_NAMES.reduce((text, [from, to]) => text.replace(from, to), name);
    const type = shape.length === 2 ? typeOf(renamed) : "f32";
    const stored = convertElements(openGgml(), "f32", type, new Uint8Array(data.buffer));
    return { name: renamed, sizes: [...shape].reverse(), type: GGML_TYPES[type], data: stored };
  });
  return ggufBytes({ fields, tensors: written });
}

/** Tokenizer and chat template of a folder whose tokenizer splits as GPT-2's does. */
export async function tokenizerFields(modelDir: string): Promise<GgufField[]> {
  const json: unknown = JSON.parse(await readFile(join(modelDir, "tokenizer.json"), "utf8"));
  const { model, added_tokens: added } = json as {
    model: { vocab: Record<string, number>; merges: [string, string][] };
    added_tokens: { id: number; content: string }[];
  };
  const control = new Map(added.map(({ id, content }) => [id, content]));
  const normal = new Map(Object.entries(model.vocab).map(([token, id]) => [id, token]));
  const ids = Array.from({ length: Math.max(...normal.keys(), ...control.keys()) + 1 }, (_, id) => id);
  const template = await readFile(join(modelDir, "chat_template.jinja"), "utf8");
  const own = (name: string): string => `tokenizer.ggml.${name}`;
  return [
    [own("model"), STRING, "gpt2"],
    [own("pre"), STRING, "gpt-2"],
    [own("tokens"), ARRAY, [STRING, ids.map((id) => control.get(id) ?? normal.get(id))]],
    [own("token_type"), ARRAY, [U32, ids.map((id) => (control.has(id) ? CONTROL_TOKEN : NORMAL_TOKEN))]],
    [own("merges"), ARRAY, [STRING, model.merges.map((pair) => pair.join(" "))]],
    [own("bos_token_id"), U32, 1],
    [own("eos_token_id"), U32, 2],
    [own("padding_token_id"), U32, 0],
    [own("add_bos_token"), BOOL, Uint8Array.of(1)],
    ["tokenizer.chat_template", STRING, template],
  ];
}

const NORMAL_TOKEN = 1;
const CONTROL_TOKEN = 3;
const BOOL = 7;
