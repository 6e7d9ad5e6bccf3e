/**
 * Writes a recorded model as the GGUF file that llama.cpp's converter makes of it: names, order of rows, whole norms.
 * Source: llama.cpp, convert_hf_to_gguf.py.
 */

import { convertElements } from "../../server/src/device/cpu/convert-elements.ts";
import type { GgufArchitecture } from "../../server/src/formats/gguf/architecture.ts";
import { GGUF_ARCHITECTURES } from "../../server/src/formats/gguf/architectures.ts";
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
import { IN_LAYER, LAYER, WHOLE } from "../../server/src/formats/gguf/tensor-names.ts";
import { readTiny } from "../../server/src/formats/gguf/tiny-gguf.test-support.ts";
import { GGML_TYPES, openGgml } from "../../server/src/native/ggml/ggml.ts";

const I32 = 5;

type Tensors = Awaited<ReturnType<typeof readTiny>>["tensors"];
type Tensor = Tensors extends ReadonlyMap<string, infer One> ? One : never;

export interface GgufOptions {
  /** Tensors to leave out. */
  readonly without?: RegExp | undefined;
  /** As many key and value heads as query heads. */
  readonly hasEqualHeads?: boolean | undefined;
  /** Matrices to store as MXFP4. */
  readonly mxfp4?: RegExp | undefined;
}

/** `keys`: metadata behind the prefix of the architecture, beside the sizes. */
export async function recordedAsGguf(
  modelDir: string,
  name: string,
  keys: readonly GgufField[] = [],
  { without = /^$/, hasEqualHeads = false, mxfp4 = /^$/ }: GgufOptions = {},
): Promise<Uint8Array> {
  const architecture = GGUF_ARCHITECTURES.get(name);
  if (architecture === undefined) throw new Error(`no architecture ${name}`);
  const { config, tensors: all } = await readTiny(modelDir);
  const kept = new Map([...unstacked(all)].filter(([tensor]) => !without.test(tensor)));
  const size = (field: string, byDefault: unknown = 0): number => Number(config[field] ?? byDefault);
  const [numHeads, numKvHeads] = [size("num_attention_heads"), size("num_key_value_heads")];
  const tensors = hasEqualHeads ? withEqualHeads(kept, numKvHeads, numHeads / numKvHeads) : kept;
  const headDim = size("head_dim", size("hidden_size") / size("num_attention_heads"));
  const epsilons = ["rms_norm_eps", "layer_norm_eps", "norm_eps", "norm_epsilon", "layer_norm_epsilon"];
  const epsilon = epsilons.map((field) => config[field]).find((value) => value !== undefined);
  const rope = (config.rope_parameters ?? {}) as Readonly<Record<string, unknown>>;
  const own = ([key, type, value]: GgufField): GgufField => [`${name}.${key}`, type, value];
  const sizes: readonly GgufField[] = [
    ["vocab_size", U32, size("vocab_size")],
    ["context_length", U32, size("max_position_embeddings")],
    ["embedding_length", U32, size("hidden_size")],
    ["block_count", U32, size("num_hidden_layers", config.num_layers)],
    ["feed_forward_length", U32, size("intermediate_size")],
    ["attention.head_count", U32, size("num_attention_heads")],
    ["attention.head_count_kv", U32, hasEqualHeads ? numHeads : numKvHeads],
    ["attention.key_length", U32, headDim],
    ["attention.value_length", U32, headDim],
    ["rope.dimension_count", U32, headDim * Number(rope.partial_rotary_factor ?? 1)],
    ["rope.freq_base", F32, rope.rope_theta ?? config.rope_theta ?? 10_000],
    ["attention.layer_norm_rms_epsilon", F32, epsilon],
    ["attention.layer_norm_epsilon", F32, epsilon],
  ];
  const given = new Map([...sizes, ...keys].map((field) => [field[0], own(field)]));
  return ggufBytes({
    fields: [["general.architecture", STRING, name], ...given.values(), ...tokens(size("vocab_size"))],
    tensors: [...tensorsOf(tensors, architecture, headDim, mxfp4), ...factorsOf(rope)],
  });
}

/** Factors of LongRoPE. */
function factorsOf(rope: Readonly<Record<string, unknown>>): readonly GgufTensorField[] {
  return ["long", "short"].flatMap((kind) => {
    const factors = rope[`${kind}_factor`];
    if (!Array.isArray(factors)) return [];
    const data = new Uint8Array(Float32Array.from(factors).buffer);
    return [{ name: `rope_factors_${kind}.weight`, sizes: [factors.length], type: GGML_TYPES.f32, data }];
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

function tensorsOf(
  tensors: Tensors,
  architecture: GgufArchitecture,
  headDim: number,
  mxfp4: RegExp,
): GgufTensorField[] {
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
    const bytes = new Uint8Array(data.buffer);
    if (!mxfp4.test(name)) return { name, sizes, type: GGML_TYPES.f32, data: bytes };
    return { name, sizes, type: GGML_TYPES.mxfp4, data: convertElements(openGgml(), "f32", "mxfp4", bytes) };
  });
}

function ggufName(name: string, architecture: GgufArchitecture) {
  const { modules = {}, expertModules = {}, layerTensors = {}, whole = {} } = architecture;
  for (const [own, other] of [...Object.entries(whole), ...WHOLE]) if (other === name) return { name: own };
  const start = (architecture.layer ?? LAYER).replaceAll(".", "\\.").replace("#", "(\\d+)");
  const [, layer = "", tensor = ""] = new RegExp(`^${start}(.*)$`).exec(name) ?? [];
  for (const [own, other] of Object.entries(layerTensors)) if (other === tensor) return { name: `blk.${layer}.${own}` };
  const [, module = "", kind = ""] = /^(.*)\.(weight|bias)$/.exec(tensor) ?? [];
  const expert = /\.(\d+)\./.exec(module)?.[1];
  const general = expert === undefined ? module : module.replace(`.${expert}.`, ".#.");
  const table = [...Object.entries(modules), ...Object.entries(expertModules), ...IN_LAYER];
  const found = table.find(([, own]) => own === general);
  if (found === undefined) throw new Error(`no GGUF name for ${name}`);
  return { name: `blk.${layer}.${found[0]}.${kind}`, expert: expert === undefined ? undefined : Number(expert) };
}

/** The experts of gpt-oss one by one: their matrices are [inputs, outputs], and those of gates and the others alternate. */
function unstacked(tensors: Tensors): Tensors {
  const single = new Map<string, Tensor>();
  for (const [name, tensor] of tensors) {
    const [, start = "", module, bias] = /^(.*\.experts\.)(gate_up|down)_proj(_bias)?$/.exec(name) ?? [];
    if (module === undefined) {
      single.set(name, tensor);
      continue;
    }
    const parts = module === "down" ? ["down"] : ["gate", "up"];
    for (const [i, part] of parts.entries()) {
      const end = `${part}_proj.${bias === undefined ? "weight" : "bias"}`;
      for (let expert = 0; expert < Number(tensor.shape[0]); expert++)
        single.set(`${start}${expert}.${end}`, strided(tensor, expert, { i, step: parts.length }));
    }
  }
  return single;
}

/** Every `step`th output of an expert, turned: [outputs, inputs]. */
function strided({ shape, values }: Tensor, expert: number, { i, step }: { i: number; step: number }): Tensor {
  const [inputs = 1, outputs = 1] = shape.length === 2 ? [1, shape[1]] : shape.slice(1);
  const rows = outputs / step;
  const own = Float32Array.from({ length: rows * inputs }, (_, n) => {
    const [row, column] = [Math.floor(n / inputs), n % inputs];
    return values[(expert * inputs + column) * outputs + row * step + i] ?? 0;
  });
  return { shape: shape.length === 2 ? [rows] : [rows, inputs], values: own };
}

/** Each key and value head once for each of its query heads, which computes the same. */
function withEqualHeads(tensors: Tensors, numKvHeads: number, repeats: number): Tensors {
  const repeated = ([name, { shape, values }]: readonly [string, Tensor]): [string, Tensor] => {
    if (!/[kv]_proj\.(weight|bias)$/.test(name)) return [name, { shape, values }];
    const size = values.length / numKvHeads;
    const heads = Array.from({ length: numKvHeads * repeats }, (_, head) => {
      const from = Math.floor(head / repeats) * size;
      return [...values.subarray(from, from + size)];
    });
    return [name, { shape: [Number(shape[0]) * repeats, ...shape.slice(1)], values: Float32Array.from(heads.flat()) }];
  };
  return new Map([...tensors].map(repeated));
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
