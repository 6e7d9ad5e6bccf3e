/** Engines for GPUs, written as if measured on one: what they hold is what their checkpoint does. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner } from "@nereid/server/engine/cpu/cpu-runner";
import { openEngineFile } from "@nereid/server/formats/trtllm/engine-file";
import { expectTarget } from "@nereid/server/formats/trtllm/engine-header";
import { openModelFiles } from "@nereid/server/formats/hf/model-files";
import type { TensorSource } from "@nereid/server/formats/tensors/tensor-source";
import { floatReader } from "@nereid/server/models/cuda/read-floats";
import { planCudaWeights } from "@nereid/server/models/cuda/weights";
import { parseDecoderConfig } from "@nereid/server/models/config/parse-decoder-config";
import { placeOf, type RankPlace, shardDecoder } from "@nereid/server/models/shard/rank-shard";
import { ShardedTensors } from "@nereid/server/models/shard/sharded-tensors";
import { openSource } from "@nereid/server/models/weights/load-weights";
import type { WeightSource } from "@nereid/server/models/weights/weight-plan";
import { widenBlocks } from "@nereid/server/models/weights/widened-tensors";
import { writeCudaEngine } from "./build-cuda-engine.ts";
import { engineProblem } from "./engine-target.ts";
import type { MeasuredGpu } from "./measure-gpu.ts";
import { stepSizes } from "./measure-gpu.ts";
import { Reporter } from "@nereid/server/files/progress";
import { writeIntegerModel } from "../quantize/quantized-model.test-support.ts";

const MODELS = fileURLToPath(new URL("../../../tests/parity/models/", import.meta.url));
const MEASURED: MeasuredGpu = {
  target: { device: "cuda sm_90a (NVIDIA H200)", kernels: "cublaslt 130000" },
  products: [{ shape: "8 64 128 bf16 bf16 false none", algorithm: "00ff10", workspaceBytes: 4096 }],
  times: new Map([["8 64 128 bf16 bf16 false none", { bestUs: 3, firstUs: 4, count: 12 }]]),
};
const INTEGERS = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  vocab_size: 256,
  hidden_size: 128,
  intermediate_size: 256,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  max_position_embeddings: 128,
  hidden_act: "silu",
  rms_norm_eps: 1e-5,
  torch_dtype: "bfloat16",
};

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "cuda-engine-"));
});
after(() => rm(folder, { recursive: true }));

async function build(checkpointDir: string, name: string, matrices?: "e4m3"): Promise<string> {
  const outputDir = join(folder, name);
  const reporter = new Reporter({ mode: "quiet", command: "build" });
  const { signal } = new AbortController();
  await writeCudaEngine(
    { checkpointDir, outputDir, matrices, buildConfig: { max_batch_size: 4 }, reporter, signal },
    MEASURED,
  );
  return outputDir;
}

/** Contents of each weight as a GPU would read them, whole or as one rank's shard. */
async function readAll(modelDir: string, place?: RankPlace): Promise<Map<string, string>> {
  const opened = await openModelFiles(modelDir);
  const whole = parseDecoderConfig(opened.files);
  const shard = place && shardDecoder(whole, (name) => opened.tensors.tensors.has(name), place);
  const tensors = shard === undefined ? opened.tensors : new ShardedTensors(widenBlocks(opened.tensors), shard.slices);
  try {
    const { placed } = planCudaWeights(shard?.parsed ?? whole, tensors, "bf16");
    const found = new Map<string, string>();
    for (const { sources, type } of placed) {
      for (const source of sources) {
        const bytes = type === "int4" ? await readInt4(source, tensors) : await readFloats(source, tensors, type);
        found.set(`${source.name} ${type}`, Buffer.from(bytes).toString("hex"));
      }
    }
    return found;
  } finally {
    await tensors.close();
  }
}

async function readInt4({ name }: WeightSource, tensors: TensorSource): Promise<Uint8Array> {
  const matrix = await tensors.integers?.get(name)?.readInt4();
  assert.ok(matrix !== undefined);
  const zeros = matrix.zeros ?? new Uint8Array(0);
  return Buffer.concat([matrix.codes, new Uint8Array(matrix.scales.slice().buffer), zeros]);
}

async function readFloats(source: WeightSource, tensors: TensorSource, type: string): Promise<Uint8Array> {
  const stored = tensors.tensors.get(source.name);
  assert.ok(stored !== undefined);
  const count = source.shape.reduce((product, size) => product * size, 1);
  const read = await openSource(floatReader(tensors), stored, source, type === "f32" ? "f32" : "bf16");
  return read(0, count);
}

for (const name of ["llama-3.2", "gpt2", "gemma-3", "qwen2-moe"]) {
  test(`an engine of ${name} for a GPU holds what its checkpoint does`, async () => {
    const engine = await build(`${MODELS}${name}`, name);
    assert.deepEqual(await readAll(engine), await readAll(`${MODELS}${name}`));
  });
}

test("an engine of integers for a GPU holds them as they are", async () => {
  for (const [method, hasZeros] of [
    ["awq", true],
    ["gptq", false],
  ] as const) {
    const source = join(folder, method);
    await writeIntegerModel(source, INTEGERS, { method, groupSize: 64, hasZeros });
    const engine = await build(source, `${method}-engine`);
    assert.deepEqual(await readAll(engine), await readAll(source));
    const { tensors } = await openModelFiles(engine);
    const original = await openModelFiles(source);
    const name = "model.layers.1.mlp.up_proj.weight";
    const [own, expected] = [tensors, original.tensors].map((one) => one.integers?.get(name)?.readFloats(3, 5));
    assert.deepEqual(await own, await expected);
    await Promise.all([tensors.close(), original.tensors.close()]);
  }
});

test("each of several GPUs reads of an engine what it reads of the checkpoint", async () => {
  const integers = join(folder, "shared");
  await writeIntegerModel(integers, INTEGERS, { method: "awq", groupSize: 32, hasZeros: true });
  for (const [name, checkpoint] of [
    ["llama-3.2", `${MODELS}llama-3.2`],
    ["gpt2", `${MODELS}gpt2`],
    ["integers", integers],
  ] as const) {
    const engine = await build(checkpoint, `shared-${name}`);
    for (const rank of [0, 1]) {
      const place = placeOf(rank, 2, 1);
      assert.deepEqual(await readAll(engine, place), await readAll(checkpoint, place));
    }
  }
});

test("an engine for a GPU says which, what was measured on it, and what matrices become", async () => {
  const engine = await build(`${MODELS}llama-3.2`, "notes", "e4m3");
  const file = await openEngineFile(join(engine, "rank0.engine"));
  assert.deepEqual([file.target, file.products, file.matrices], [MEASURED.target, MEASURED.products, "e4m3"]);
  await file.close();
  const { build_config: config } = JSON.parse(await readFile(join(engine, "config.json"), "utf8"));
  assert.deepEqual(config, {
    max_batch_size: 4,
    nereid: {
      ...MEASURED.target,
      matrices: "e4m3",
      products: [{ shape: "8 64 128 bf16 bf16 false none", us: 3, first_guess_us: 4, measured: 12 }],
    },
  });
});

test("an engine for a GPU is refused elsewhere, with the command that builds it again", async () => {
  const engine = await build(`${MODELS}llama-3.2`, "refused");
  await assert.rejects(
    createDecoderRunner({ modelDir: engine, numBlocks: 4, blockSize: 16 }),
    /built for cuda sm_90a \(NVIDIA H200\) with cublaslt 130000, this is cpu with ggml 0\.\d+: build it again: nereid build/,
  );
  const other = { ...MEASURED.target, kernels: "cublaslt 120900" };
  assert.throws(
    () => expectTarget(MEASURED.target, other, engine),
    /with cublaslt 130000, this is cuda sm_90a \(NVIDIA H200\) with cublaslt 120900: build it again/,
  );
});

test("engineProblem() says that an engine is for another device, and nothing where it is for one that is here", async () => {
  const engine = await build(`${MODELS}llama-3.2`, "problem");
  const { tensors } = await openModelFiles(engine);
  const gpu = (name: string) => ({ ordinal: 0, name, capability: 90, numBytes: 1 });
  assert.equal(await engineProblem(tensors, () => ({ gpus: [gpu("NVIDIA H200")], notes: [] })), undefined);
  assert.equal(
    await engineProblem(tensors, () => ({ gpus: [gpu("NVIDIA L4")], notes: [] })),
    "the engine was built for cuda sm_90a (NVIDIA H200), here there is NVIDIA L4",
  );
  assert.match((await engineProblem(tensors, () => ({ gpus: [], notes: [] }))) ?? "", /here there is no GPU$/);
  await tensors.close();
  const plain = await openModelFiles(`${MODELS}llama-3.2`);
  assert.equal(await engineProblem(plain.tensors), undefined);
  await plain.tensors.close();
});

test("stepSizes() covers replies of as many requests as there may be and prompts of each length", () => {
  assert.deepEqual(stepSizes(24, 6, 100), [
    [1, 1],
    [2, 1],
    [4, 1],
    [6, 1],
    [1, 2],
    [1, 4],
    [1, 8],
    [1, 16],
    [1, 24],
  ]);
});
