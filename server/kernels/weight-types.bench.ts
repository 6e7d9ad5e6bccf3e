/**
 * Tokens per second by the type of the weights: nereid-tiny, and a random model of the shape of Llama 3.2 1B that is
 * written to a temporary folder (2.5 GB). `tsx server/kernels/weight-types.bench.ts [tiny | 1b]`
 */
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { createDecoderRunner, type DecoderCpuRunner, type DecoderRunnerOptions } from "../src/engine/cpu/cpu-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../src/engine/testing/sequences.ts";
import { randomFloats } from "./testing/run-op.ts";

const TINY = fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url));
const BLOCK_SIZE = 16;
const BLOCKS_PER_SEQUENCE = 16;
const MAX_BATCH = 8;
const NUM_THREADS = 2;
const TYPES: readonly DecoderRunnerOptions["weightType"][] = ["f32", "bf16", "q8_0", "q4_0", "q4_1"];

const SHAPE = { hidden: 2048, heads: 32, kvHeads: 8, headDim: 64, mlp: 8192, vocab: 128_256, layers: 16 };

interface Amount {
  readonly decodeSteps: number;
  readonly batchSteps: number;
  readonly promptTokens: number;
}

async function writeRandomModel(directory: string): Promise<void> {
  const { hidden, heads, kvHeads, headDim, mlp, vocab, layers } = SHAPE;
  const shapes: [name: string, shape: readonly number[]][] = [["model.embed_tokens.weight", [vocab, hidden]]];
  for (let i = 0; i < layers; i++) {
    const at = `model.layers.${i}`;
    shapes.push([`${at}.input_layernorm.weight`, [hidden]], [`${at}.post_attention_layernorm.weight`, [hidden]]);
    shapes.push([`${at}.self_attn.q_proj.weight`, [heads * headDim, hidden]]);
    shapes.push([`${at}.self_attn.k_proj.weight`, [kvHeads * headDim, hidden]]);
    shapes.push([`${at}.self_attn.v_proj.weight`, [kvHeads * headDim, hidden]]);
    shapes.push([`${at}.self_attn.o_proj.weight`, [hidden, heads * headDim]]);
    shapes.push([`${at}.mlp.gate_proj.weight`, [mlp, hidden]], [`${at}.mlp.up_proj.weight`, [mlp, hidden]]);
    shapes.push([`${at}.mlp.down_proj.weight`, [hidden, mlp]]);
  }
  shapes.push(["model.norm.weight", [hidden]]);
  let end = 0;
  const entries = shapes.map(([name, shape]) => {
    const begin = end;
    end += 2 * shape.reduce((product, size) => product * size, 1);
    return [name, { dtype: "BF16", shape, data_offsets: [begin, end] }];
  });
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(header.byteLength));
  // The upper halves of single-precision numbers, the same block over and over: speed does not depend on values.
  const wide = new Uint32Array(randomFloats(1 << 20, 1).map((value) => value * 0.02).buffer);
  const block = new Uint8Array(Uint16Array.from(wide, (bits) => bits >>> 16).buffer);
  const file = await open(join(directory, "model.safetensors"), "w");
  await file.writeFile(Buffer.concat([prefix, header]));
  for (let left = end; left > 0; left -= block.byteLength) await file.writeFile(block.subarray(0, left));
  await file.close();
  await writeFile(join(directory, "config.json"), JSON.stringify(configOf()));
}

function configOf(): object {
  const { hidden, heads, kvHeads, headDim, mlp, vocab, layers } = SHAPE;
  return {
    architectures: ["LlamaForCausalLM"],
    hidden_size: hidden,
    num_attention_heads: heads,
    num_key_value_heads: kvHeads,
    head_dim: headDim,
    intermediate_size: mlp,
    vocab_size: vocab,
    num_hidden_layers: layers,
    max_position_embeddings: 2048,
    tie_word_embeddings: true,
    rope_theta: 500_000,
    rms_norm_eps: 1e-5,
  };
}

/** Tokens per second of the fastest of `numSteps` steps: what else runs on the machine slows the others. */
async function rate(numSteps: number, tokensPerStep: number, step: () => Promise<unknown>): Promise<number> {
  await step();
  let fastestMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < numSteps; i++) {
    const startMs = performance.now();
    await step();
    fastestMs = Math.min(fastestMs, performance.now() - startMs);
  }
  return (tokensPerStep * 1000) / fastestMs;
}

function decode(runner: DecoderCpuRunner, batch: number, numSteps: number): Promise<number> {
  const sequences = Array.from(
    { length: batch },
    (_, i) => new TestSequence(contiguousBlocks(i * BLOCKS_PER_SEQUENCE, BLOCKS_PER_SEQUENCE)),
  );
  return rate(numSteps, batch, () =>
    append(
      runner,
      sequences.map((sequence) => ({ sequence, tokens: [7] })),
    ),
  );
}

function prefill(runner: DecoderCpuRunner, numTokens: number): Promise<number> {
  const tokens = Array.from({ length: numTokens }, (_, i) => (i * 37) % 5000);
  return rate(1, numTokens, () => {
    const sequence = new TestSequence(contiguousBlocks(0, BLOCKS_PER_SEQUENCE));
    return append(runner, [{ sequence, tokens }]);
  });
}

async function measure(name: string, modelDir: string, types: typeof TYPES, amount: Amount): Promise<void> {
  for (const weightType of types) {
    const startMs = performance.now();
    const numBlocks = MAX_BATCH * BLOCKS_PER_SEQUENCE;
    const runner = await createDecoderRunner({
      modelDir,
      numBlocks,
      blockSize: BLOCK_SIZE,
      numThreads: NUM_THREADS,
      weightType,
    });
    const loadMs = performance.now() - startMs;
    const figures = {
      "load s": (loadMs / 1000).toFixed(1),
      "decode 1": (await decode(runner, 1, amount.decodeSteps)).toFixed(1),
      [`decode ${MAX_BATCH}`]: (await decode(runner, MAX_BATCH, amount.batchSteps)).toFixed(1),
      [`prefill ${amount.promptTokens}`]: (await prefill(runner, amount.promptTokens)).toFixed(1),
    };
    await runner.close();
    const text = Object.entries(figures).map(([key, value]) => `${key}: ${value}`);
    console.log(`${name} ${weightType}: ${text.join(", ")}`);
  }
}

async function measureRandomModel(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "weight-types-"));
  try {
    await writeRandomModel(directory);
    await measure("1B", directory, TYPES.slice(1), { decodeSteps: 8, batchSteps: 3, promptTokens: 64 });
  } finally {
    await rm(directory, { recursive: true });
  }
}

const only = process.argv[2];
if (only !== "1b") {
  await measure("nereid-tiny", TINY, TYPES, { decodeSteps: 100, batchSteps: 50, promptTokens: 240 });
}
if (only !== "tiny") await measureRandomModel();
