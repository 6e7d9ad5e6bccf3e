/** Adapters as clients name them, on a tiny model whose answers under each adapter are recorded. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { numberToFp16 } from "../../core/fp16.ts";
import type { Tensor } from "../../core/tensor.ts";
import { readNpy } from "../../formats/tensors/npy.ts";
import { call, int32, notDecoupled, prompt, serve, text, values } from "./llm.test-support.ts";

const PARITY = fileURLToPath(new URL("../../../../tests/parity/", import.meta.url));
const ADAPTERS = `${PARITY}adapters/llama-3.2`;
const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, "utf8")) as T;
const BASE = readJson<{ prompt: number[]; greedy: number[] }>(`${PARITY}models/llama-3.2/expected.json`);
const greedyOf = (name: string): number[] => readJson<{ greedy: number[] }>(`${ADAPTERS}/${name}/expected.json`).greedy;

type Ask = (...more: Tensor[]) => Promise<number[]>;

async function serveTiny(t: TestContext, parameters: Readonly<Record<string, string>>): Promise<Ask> {
  const all = { gpt_model_path: `${PARITY}models/llama-3.2`, num_threads: "1", ...parameters };
  const lines = Object.entries(all).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  const change = (config: string): string =>
    notDecoupled(config.replace(/^parameters[\s\S]*?^}\n/gm, "")) + lines.join("\n");
  const { instance, warnings } = await serve(t, change, {});
  assert.deepEqual(
    warnings.filter((line) => line.startsWith("model ")),
    [],
  );
  return async (...more) => {
    const { responses, ended } = call(instance, prompt(BASE.prompt, 8, ...more));
    const error = await ended;
    if (error !== undefined) throw error;
    return values(responses[0], "output_ids").values.slice(BASE.prompt.length);
  };
}

function taskId(id: bigint): Tensor {
  return {
    name: "lora_task_id",
    datatype: "UINT64",
    shape: [1, 1],
    data: new Uint8Array(BigUint64Array.of(id).buffer),
  };
}

/** FP16, as clients send them. */
async function matrices(): Promise<readonly [weights: Tensor, config: Tensor]> {
  const weights = await readNpy(`${PARITY}tasks/7/model.lora_weights.npy`);
  const config = await readNpy(`${PARITY}tasks/7/model.lora_config.npy`);
  const data = new Uint8Array(Uint16Array.from(weights.values, numberToFp16).buffer);
  return [
    { name: "lora_weights", datatype: "FP16", shape: weights.shape, data },
    int32("lora_config", config.shape, ...config.values),
  ];
}

test("execute() takes adapters by name from lora_adapters and lora_dir, several at a time", async (t) => {
  const ask = await serveTiny(t, { lora_adapters: `french: ${ADAPTERS}/b , german:${ADAPTERS}/c`, lora_dir: ADAPTERS });
  const answers = await Promise.all([
    ask(text("lora_name", "french")),
    ask(text("lora_name", "german")),
    ask(text("lora_name", "a")),
    ask(text("lora_path", `${ADAPTERS}/d`)),
    ask(),
  ]);
  assert.deepEqual(answers, [...["b", "c", "a", "d"].map(greedyOf), BASE.greedy.slice(0, 8)]);
  await assert.rejects(ask(text("lora_name", "klingon")), {
    message: /^no adapter is named 'klingon', known are: a, b/,
  });
});

test("execute() takes a task's matrices with its first request and its number from then on", async (t) => {
  const ask = await serveTiny(t, {});
  const unknown = {
    code: "invalid_argument",
    message: "LoRA task 3 not found in cache. Please send LoRA weights with request",
  };
  await assert.rejects(ask(taskId(3n)), unknown);
  assert.deepEqual(await ask(taskId(3n), ...(await matrices())), greedyOf("d"));
  assert.deepEqual(await ask(taskId(3n)), greedyOf("d"));
  assert.deepEqual(await ask(), BASE.greedy.slice(0, 8));
});

test("execute() knows the tasks of lora_prefetch_dir", async (t) => {
  const ask = await serveTiny(t, { lora_prefetch_dir: `${PARITY}tasks` });
  assert.deepEqual(await ask(taskId(7n)), greedyOf("d"));
});

test("execute() refuses inputs that do not say one adapter", async (t) => {
  const ask = await serveTiny(t, { lora_dir: ADAPTERS });
  const [weights, config] = await matrices();
  const refused: readonly (readonly [inputs: readonly Tensor[], expected: RegExp])[] = [
    [[weights, config], /^input 'lora_weights' needs 'lora_task_id'/],
    [[taskId(1n), weights], /^inputs 'lora_weights' and 'lora_config' come together/],
    [[taskId(1n), text("lora_name", "a")], /name two adapters, expected one$/],
    [[text("lora_name", "a"), text("lora_ckpt_source", "nemo")], /^input 'lora_ckpt_source' is 'nemo', expected 'hf'$/],
    [
      [taskId(1n), weights, int32("lora_config", [1, 1, 3], 1, 0, 1)],
      /^LoRA task 1 cannot be loaded: lora_config: expected/,
    ],
    [[int32("lora_id", [1, 1], 3)], /^input 'lora_id' needs 'lora_name' or 'lora_path'/],
    [[text("lora_path", "/etc")], /^no adapter of this model lies at '\/etc'/],
  ];
  for (const [inputs, message] of refused) await assert.rejects(ask(...inputs), { message });
});

test("createInstance() refuses a model whose adapter does not fit, and parameters that make no sense", async (t) => {
  const gpt2 = { lora_adapters: `wrong:${PARITY}adapters/gpt2/a` };
  await assert.rejects(serveTiny(t, gpt2), { message: /adapter 'wrong' cannot be loaded: .*target module "c_/ });
  const twice = { lora_adapters: "a:b,a:c" };
  await assert.rejects(serveTiny(t, twice), {
    message: /parameter 'lora_adapters' is 'a:b,a:c', expected name:folder/,
  });
});
