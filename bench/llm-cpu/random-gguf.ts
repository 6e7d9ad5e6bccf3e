/**
 * Writes a Llama of any shape with random weights as GGUF, so that every engine reads the very same file. Weights repeat
 * one random block: speed does not depend on their values. The vocabulary is a byte alphabet and made-up words.
 */
import { open } from "node:fs/promises";
import {
  ARRAY,
  F32,
  type GgufField,
  ggufBytes,
  STRING,
  U32,
} from "../../server/src/formats/gguf/gguf-writer.test-support.ts";

export interface Shape {
  readonly hidden: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly mlp: number;
  readonly vocab: number;
  readonly layers: number;
}

/** Shape of Llama 3.2 1B, embeddings tied. */
export const SHAPE_1B: Shape = {
  hidden: 2048,
  heads: 32,
  kvHeads: 8,
  headDim: 64,
  mlp: 8192,
  vocab: 128_256,
  layers: 16,
};

/** 50 M parameters: 100 MB in bf16. */
export const SHAPE_100MB: Shape = {
  hidden: 512,
  heads: 8,
  kvHeads: 4,
  headDim: 64,
  mlp: 1536,
  vocab: 32_000,
  layers: 10,
};

export type WeightFormat = "bf16" | "q8_0" | "q4_0";

/** ggml's number of each type, elements and bytes of a block. */
const FORMATS: Readonly<Record<WeightFormat, { type: number; elements: number; bytes: number }>> = {
  bf16: { type: 30, elements: 1, bytes: 2 },
  q8_0: { type: 8, elements: 32, bytes: 34 },
  q4_0: { type: 2, elements: 32, bytes: 18 },
};
const GGML_F32 = 0;
const MAX_CONTEXT = 4096;
/** The word of the only merge. */
const MERGED = "ab";

export async function writeRandomGguf(path: string, shape: Shape, format: WeightFormat): Promise<void> {
  const tensors = tensorsOf(shape);
  const draft = tensors.map(({ name, sizes, isMatrix }, i) => ({
    name,
    sizes: [...sizes].reverse(),
    type: isMatrix ? FORMATS[format].type : GGML_F32,
    data: new Uint8Array(0),
    offset: offsetOf(tensors, i, format),
  }));
  const file = await open(path, "w");
  try {
    await file.writeFile(ggufBytes({ fields: fieldsOf(shape), tensors: draft }));
    const matrix = randomBlocks(format);
    for (const tensor of tensors) {
      const bytes = padded(byteSize(tensor, format));
      const source = tensor.isMatrix ? matrix : ones(tensor.sizes[0] ?? 0);
      for (let left = bytes; left > 0; left -= source.byteLength) {
        await file.writeFile(left < source.byteLength ? source.subarray(0, left) : source);
      }
    }
  } finally {
    await file.close();
  }
}

interface RandomTensor {
  readonly name: string;
  readonly sizes: readonly number[];
  readonly isMatrix: boolean;
}

function tensorsOf({ hidden, heads, kvHeads, headDim, mlp, vocab, layers }: Shape): RandomTensor[] {
  const matrix = (name: string, outputs: number, inputs: number) => ({
    name,
    sizes: [outputs, inputs],
    isMatrix: true,
  });
  const norm = (name: string) => ({ name, sizes: [hidden], isMatrix: false });
  const tensors: RandomTensor[] = [matrix("token_embd.weight", vocab, hidden)];
  for (let i = 0; i < layers; i++) {
    const at = `blk.${i}`;
    tensors.push(norm(`${at}.attn_norm.weight`), norm(`${at}.ffn_norm.weight`));
    tensors.push(matrix(`${at}.attn_q.weight`, heads * headDim, hidden));
    tensors.push(matrix(`${at}.attn_k.weight`, kvHeads * headDim, hidden));
    tensors.push(matrix(`${at}.attn_v.weight`, kvHeads * headDim, hidden));
    tensors.push(matrix(`${at}.attn_output.weight`, hidden, heads * headDim));
    tensors.push(matrix(`${at}.ffn_gate.weight`, mlp, hidden), matrix(`${at}.ffn_up.weight`, mlp, hidden));
    tensors.push(matrix(`${at}.ffn_down.weight`, hidden, mlp));
  }
  return [...tensors, norm("output_norm.weight")];
}

function fieldsOf({ hidden, heads, kvHeads, headDim, mlp, vocab, layers }: Shape): GgufField[] {
  const words = Array.from({ length: vocab }, (_, i) => (i < 256 ? byteText(i) : i === 256 ? MERGED : `w${i}`));
  return [
    ["general.architecture", STRING, "llama"],
    ["general.name", STRING, "random"],
    ["llama.vocab_size", U32, vocab],
    ["llama.context_length", U32, MAX_CONTEXT],
    ["llama.embedding_length", U32, hidden],
    ["llama.block_count", U32, layers],
    ["llama.feed_forward_length", U32, mlp],
    ["llama.rope.dimension_count", U32, headDim],
    ["llama.rope.freq_base", F32, 500_000],
    ["llama.attention.head_count", U32, heads],
    ["llama.attention.head_count_kv", U32, kvHeads],
    ["llama.attention.key_length", U32, headDim],
    ["llama.attention.value_length", U32, headDim],
    ["llama.attention.layer_norm_rms_epsilon", F32, 1e-5],
    ["tokenizer.ggml.model", STRING, "gpt2"],
    ["tokenizer.ggml.pre", STRING, "gpt-2"],
    ["tokenizer.ggml.tokens", ARRAY, [STRING, words]],
    ["tokenizer.ggml.merges", ARRAY, [STRING, [`${byteText(97)} ${byteText(98)}`]]],
    ["tokenizer.ggml.eos_token_id", U32, vocab - 1],
  ];
}

const IS_VISIBLE: readonly boolean[] = Array.from({ length: 256 }, (_, byte) => {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
});

/** The visible character that stands for a byte in byte-level vocabularies (GPT-2, encoder.py, `bytes_to_unicode`). */
function byteText(byte: number): string {
  const numHidden = IS_VISIBLE.slice(0, byte).filter((isVisible) => !isVisible).length;
  return String.fromCodePoint(IS_VISIBLE[byte] === true ? byte : 256 + numHidden);
}

function byteSize({ sizes, isMatrix }: RandomTensor, format: WeightFormat): number {
  const elements = sizes.reduce((product, size) => product * size, 1);
  return isMatrix ? (elements / FORMATS[format].elements) * FORMATS[format].bytes : elements * 4;
}

function offsetOf(tensors: readonly RandomTensor[], index: number, format: WeightFormat): number {
  return tensors.slice(0, index).reduce((end, tensor) => end + padded(byteSize(tensor, format)), 0);
}

function padded(bytes: number): number {
  return Math.ceil(bytes / 32) * 32;
}

function ones(length: number): Uint8Array {
  return new Uint8Array(new Float32Array(length).fill(1).buffer);
}

/** About a megabyte of blocks with scales near those of trained weights. */
function randomBlocks(format: WeightFormat): Uint8Array {
  const { bytes } = FORMATS[format];
  const count = Math.floor((1 << 20) / (bytes * 32)) * 32;
  const out = new Uint8Array(count * bytes);
  let state = 1;
  const next = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 8;
  };
  for (let i = 0; i < out.length; i++) out[i] = next() & 255;
  const view = new DataView(out.buffer);
  for (let i = 0; i < count; i++) {
    // bf16: sign, exponent of about 2^-6, random fraction. Blocks: a half-precision scale of about 0.02 / largest integer.
    if (format === "bf16") view.setUint16(2 * i, ((next() & 1) << 15) | (121 << 7) | (next() & 127), true);
    else view.setUint16(bytes * i, format === "q8_0" ? 0x0900 : 0x1900, true);
  }
  return out;
}
