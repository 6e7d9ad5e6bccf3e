import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../../kernels/testing/run-op.ts";
import { createDecoderRunner, type DecoderCpuRunner } from "../../engine/cpu/cpu-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../engine/testing/sequences.ts";

const MODELS = fileURLToPath(new URL("../../../../tests/parity/models/", import.meta.url));
const directory = await mkdtemp(join(tmpdir(), "weights-"));
after(() => rm(directory, { recursive: true }));

/** A copy of a tiny model with another config, and other names in its header. */
async function changedModel(
  name: string,
  changeConfig: (config: Record<string, unknown>) => object,
  changeHeader: (header: string) => string = (header) => header,
): Promise<string> {
  const copy = await mkdtemp(join(directory, "model-"));
  await cp(join(MODELS, name), copy, { recursive: true });
  const config = JSON.parse(await readFile(join(copy, "config.json"), "utf8")) as Record<string, unknown>;
  await writeFile(join(copy, "config.json"), JSON.stringify(changeConfig(config)));
  const file = await readFile(join(copy, "model.safetensors"));
  const end = 8 + Number(file.readBigUInt64LE());
  const header = Buffer.from(changeHeader(file.toString("utf8", 8, end)));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(header.byteLength));
  await writeFile(join(copy, "model.safetensors"), Buffer.concat([prefix, header, file.subarray(end)]));
  return copy;
}

function open(modelDir: string): Promise<DecoderCpuRunner> {
  return createDecoderRunner({ modelDir, numBlocks: 16, blockSize: 16, numThreads: 1 });
}

async function logitsOf(modelDir: string): Promise<Float32Array> {
  const runner = await open(modelDir);
  const sequence = new TestSequence(contiguousBlocks(0, 4));
  const [logits] = await append(runner, [{ sequence, tokens: [5, 9, 200, 31, 7] }]);
  await runner.close();
  assert.ok(logits);
  return logits;
}

const REFUSED: readonly (readonly [name: string, model: string, changes: object, expected: RegExp])[] = [
  [
    "a tensor whose shape is not the config's",
    "llama-2",
    { intermediate_size: 80 },
    /"model\.layers\.0\.mlp\.gate_proj\.weight": expected \[80, 64\] from the config, got \[96, 64\]/,
  ],
  [
    "a tensor that is missing",
    "llama-2",
    { attention_bias: true },
    /the weights lack tensor "model\.layers\.0\.self_attn\.q_proj\.bias" \[64\]/,
  ],
  [
    "a transposed tensor whose shape is not the config's",
    "gpt2",
    { n_inner: 100 },
    /"transformer\.h\.0\.mlp\.c_fc\.weight": expected \[64, 100\] from the config, got \[64, 256\]/,
  ],
  [
    "experts that the files do not have",
    "mixtral",
    { num_local_experts: 5 },
    /"model\.layers\.0\.block_sparse_moe\.gate\.weight": expected \[5, 64\] from the config, got \[4, 64\]/,
  ],
];

for (const [name, model, changes, expected] of REFUSED) {
  test(`createDecoderRunner() names ${name}`, async () => {
    await assert.rejects(open(await changedModel(model, (config) => ({ ...config, ...changes }))), expected);
  });
}

test("createDecoderRunner() finds the weights of GPT-2 without the prefix that some files lack", async () => {
  const bare = await changedModel(
    "gpt2",
    (config) => config,
    (header) => header.replaceAll("transformer.", ""),
  );
  assert.equal(maxDifference(await logitsOf(bare), await logitsOf(join(MODELS, "gpt2"))), 0);
});

for (const prefix of ["language_model.model.", "model.language_model."]) {
  test(`createDecoderRunner() runs the text half of a multimodal Gemma 3 under "${prefix}"`, async () => {
    const multimodal = await changedModel(
      "gemma-3",
      (config) => ({ architectures: ["Gemma3ForConditionalGeneration"], text_config: config }),
      (header) => header.replaceAll('"model.', `"${prefix}`),
    );
    assert.equal(maxDifference(await logitsOf(multimodal), await logitsOf(join(MODELS, "gemma-3"))), 0);
  });
}
