/**
 * Writes a recorded model as the GGUF file that llama.cpp's converter makes of it: names, order of rows, whole norms.
 * Source: llama.cpp, convert_hf_to_gguf.py.
 */
import { GGUF_ARCHITECTURES, type GgufArchitecture } from "../../server/src/formats/gguf/architectures.ts";
import {
  ARRAY,
  F32,
  type GgufField,
  type GgufTensorField,
  ggufBytes,
  STRING,
  U32,
} from "../../server/src/formats/gguf/gguf-writer.test-support.ts";
import { interleavedRow } from "../../server/src/formats/gguf/model.ts";
import { IN_LAYER, WHOLE } from "../../server/src/formats/gguf/tensor-names.ts";
import { readTiny } from "../../server/src/formats/gguf/tiny-gguf.test-support.ts";

const I32 = 5;

type Tensors = Awaited<ReturnType<typeof readTiny>>["tensors"];

/** `keys`: metadata behind the prefix of the architecture, beside the sizes. */
export async function recordedAsGguf(
  modelDir: string,
  name: string,
  keys: readonly GgufField[] = [],
): Promise<Uint8Array> {
  const architecture = GGUF_ARCHITECTURES.get(name);
  if (architecture === undefined) throw new Error(`no architecture ${name}`);
  const { config, tensors } = await readTiny(modelDir);
  const size = (field: string, byDefault: unknown = 0): number => Number(config[field] ?? byDefault);
  const headDim = size("head_dim", size("hidden_size") / size("num_attention_heads"));
  const epsilon = config.rms_norm_eps ?? config.layer_norm_eps ?? config.norm_eps;
  const rope = (config.rope_parameters ?? {}) as Readonly<Record<string, unknown>>;
  const own = ([key, type, value]: GgufField): GgufField => [`${name}.${key}`, type, value];
  const sizes: readonly GgufField[] = [
    ["vocab_size", U32, size("vocab_size")],
    ["context_length", U32, size("max_position_embeddings")],
    ["embedding_length", U32, size("hidden_size")],
    ["block_count", U32, size("num_hidden_layers")],
    ["feed_forward_length", U32, size("intermediate_size")],
    ["attention.head_count", U32, size("num_attention_heads")],
    ["attention.head_count_kv", U32, size("num_key_value_heads")],
    ["attention.key_length", U32, headDim],
    ["attention.value_length", U32, headDim],
    ["rope.dimension_count", U32, headDim * Number(rope.partial_rotary_factor ?? 1)],
    ["rope.freq_base", F32, rope.rope_theta ?? 10_000],
    ["attention.layer_norm_rms_epsilon", F32, epsilon],
    ["attention.layer_norm_epsilon", F32, epsilon],
  ];
  const given = new Map([...sizes, ...keys].map((field) => [field[0], own(field)]));
  return ggufBytes({
    fields: [["general.architecture", STRING, name], ...given.values(), ...tokens(size("vocab_size"))],
    tensors: tensorsOf(tensors, architecture, headDim),
  });
}

/** A vocabulary of byte tokens: libllama does not load a file without one. */
function tokens(count: number): readonly GgufField[] {
  const ids = Array.from({ length: count }, (_, id) => id);
  return [
    ["tokenizer.ggml.model", STRING, "llama"],
    ["tokenizer.ggml.tokens", ARRAY, [STRING, ids.map((id) => `<t${id}>`)]],
    ["tokenizer.ggml.scores", ARRAY, [F32, ids.map((id) => -id)]],
    ["tokenizer.ggml.token_type", ARRAY, [I32, ids.map((id) => (id < 3 ? 3 : 1))]],
    ["tokenizer.ggml.bos_token_id", U32, 1],
    ["tokenizer.ggml.eos_token_id", U32, 2],
    ["tokenizer.ggml.padding_token_id", U32, 0],
  ];
}

function tensorsOf(tensors: Tensors, architecture: GgufArchitecture, headDim: number): GgufTensorField[] {
  const stacked = new Map<string, { readonly shape: readonly number[]; readonly parts: Float32Array[] }>();
  for (const [name, { shape, values }] of tensors) {
    const { name: own, expert } = ggufName(name, architecture);
    const isPaired = architecture.hasInterleavedRows === true && /attn_[qk]\./.test(own);
    const isWhole = architecture.hasWholeNorms === true && /norm\.weight$/.test(own);
    const ordered = isPaired ? pairRows(values, shape, headDim) : values;
    const whole = isWhole ? ordered.map((value) => value + 1) : ordered;
    const known = stacked.get(own) ?? { shape, parts: [] };
    known.parts[expert ?? 0] = whole;
    stacked.set(own, known);
  }
  return [...stacked].map(([name, { shape, parts }]): GgufTensorField => {
    const data = Float32Array.from(parts.flatMap((part) => [...part]));
    const sizes = name.includes("_exps.") ? [...shape].reverse().concat(parts.length) : [...shape].reverse();
    return { name, sizes, type: 0, data: new Uint8Array(data.buffer) };
  });
}

function ggufName(name: string, { modules = {}, expertModules = {} }: GgufArchitecture) {
  for (const [own, whole] of WHOLE) if (whole === name) return { name: own };
  const match = /^model\.layers\.(\d+)\.(.*)\.(weight|bias)$/.exec(name);
  if (match === null) throw new Error(`no GGUF name for ${name}`);
  const [, layer = "", module = "", kind = ""] = match;
  const expert = /\.(\d+)\./.exec(module)?.[1];
  const general = expert === undefined ? module : module.replace(`.${expert}.`, ".#.");
  const table = [...Object.entries(modules), ...Object.entries(expertModules), ...IN_LAYER];
  const found = table.find(([, own]) => own === general);
  if (found === undefined) throw new Error(`no GGUF name for ${name}`);
  return { name: `blk.${layer}.${found[0]}.${kind}`, expert: expert === undefined ? undefined : Number(expert) };
}

/** Interleaves the halves of each head. */
function pairRows(values: Float32Array, shape: readonly number[], headRows: number): Float32Array {
  const [rows = 0, columns = 1] = shape;
  const out = new Float32Array(values.length);
  for (let row = 0; row < rows; row++) {
    const to = row - (row % headRows) + interleavedRow(row % headRows, headRows);
    out.set(values.subarray(row * columns, (row + 1) * columns), to * columns);
  }
  return out;
}
