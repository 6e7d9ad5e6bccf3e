/** The pipeline model with stand-ins for the three models that it calls. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { packBytesElements } from "../../core/bytes-tensor.ts";
import { type InferRequest, NO_PARAMETERS, NO_SEQUENCE } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import { signatureOf } from "../../core/model-signature.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { BackendResponse, ModelSource } from "../backend.ts";
import { createBlsBackend } from "./bls-backend.ts";

const TEMPLATES = fileURLToPath(new URL("../../../../offline/templates/inflight_batcher_llm/", import.meta.url));
const configOf = (model: string, change = (text: string) => text) =>
  parseModelConfigText(change(readFileSync(`${TEMPLATES}${model}/config.pbtxt`, "utf8")), "config.pbtxt");

function int32(name: string, shape: readonly number[], ...values: number[]): Tensor {
  return { name, datatype: "INT32", shape, data: new Uint8Array(Int32Array.from(values).buffer) };
}

function texts(name: string, shape: readonly number[], ...values: string[]): Tensor {
  return { name, datatype: "BYTES", shape, data: packBytesElements(values) };
}

const flag = (name: string): Tensor => ({ name, datatype: "BOOL", shape: [1, 1], data: Uint8Array.of(1) });
const prompt = (...more: Tensor[]): Tensor[] => [
  texts("text_input", [1, 1], "ab"),
  int32("max_tokens", [1, 1], 8),
  ...more,
];

interface Setup {
  /** Texts of the engine's responses, each standing for its tokens. */
  readonly engine?: readonly string[];
  readonly change?: (text: string) => string;
  readonly signal?: AbortSignal;
  readonly fail?: ServerError;
}

interface Outcome {
  readonly responses: readonly BackendResponse[];
  readonly error: ServerError | undefined;
  readonly calls: ReadonlyMap<string, readonly InferRequest[]>;
}

/** Tokens are the characters' codes, so that the stand-ins need no vocabulary. */
async function run(inputs: readonly Tensor[], setup: Setup = {}): Promise<Outcome> {
  const calls = new Map<string, InferRequest[]>();
  const response = (outputs: readonly Tensor[], final: boolean): InferResponse => ({
    modelName: "inner",
    modelVersion: "1",
    id: "",
    parameters: NO_PARAMETERS,
    outputs,
    final,
    empty: false,
  });
  const models: ModelSource["models"] = {
    signature: (name) => signatureOf(configOf(name)),
    async *infer(request) {
      calls.set(request.modelName, [...(calls.get(request.modelName) ?? []), request]);
      if (request.modelName === "preprocessing") {
        yield response(
          [int32("INPUT_ID", [1, 2], 97, 98), int32("REQUEST_INPUT_LEN", [1, 1], 2), int32("OUT_END_ID", [1, 1], 2)],
          true,
        );
      } else if (request.modelName === "postprocessing") {
        const tokens = request.inputs.find(({ name }) => name === "TOKENS_BATCH")?.data.slice().buffer;
        const text = String.fromCharCode(...new Int32Array(tokens ?? new ArrayBuffer(0)));
        yield response([texts("OUTPUT", [1, 1], text)], true);
      } else {
        if (setup.fail !== undefined) throw setup.fail;
        const parts = setup.engine ?? ["cd"];
        for (const [i, part] of parts.entries()) {
          const ids = [...part].map((character) => character.charCodeAt(0));
          const tokens = int32("output_ids", [1, 1, ids.length], ...ids);
          const isLast = i === parts.length - 1;
          yield response(
            [tokens, int32("sequence_length", [1, 1], ids.length), int32("batch_index", [1, 1], 0)],
            isLast,
          );
        }
      }
    },
  };
  const change = setup.change ?? ((text: string) => text.replace("$" + "{decoupled_mode}", "true"));
  const config = configOf("tensorrt_llm_bls", change);
  const unused = (): never => assert.fail("not used");
  const source = { config, models, metrics: { register: unused } } as unknown as ModelSource;
  const model = await createBlsBackend().load(source);
  const instance = await model.createInstance({ name: "bls_0", kind: "KIND_CPU", deviceId: 0 });
  const responses: BackendResponse[] = [];
  const error = await new Promise<ServerError | undefined>((resolve) => {
    const request: InferRequest = {
      modelName: "tensorrt_llm_bls",
      modelVersion: "",
      id: "client-7",
      inputs,
      outputs: [],
      parameters: NO_PARAMETERS,
      sequence: NO_SEQUENCE,
      priority: 0,
      timeoutUs: 0,
      signal: setup.signal ?? new AbortController().signal,
      origin: { key: {}, isLast: true },
      arrivalMs: 0,
    };
    void instance.execute({
      batchSize: 1,
      computeStarted: () => undefined,
      computeEnded: () => undefined,
      requests: [
        {
          request,
          batchSize: 1,
          outputNames: config.output.map(({ name }) => name),
          respond: (answer) => {
            responses.push(answer);
            if (answer.final) resolve(undefined);
          },
          fail: resolve,
          drained: () => Promise.resolve(),
        },
      ],
    });
  });
  await instance.close();
  return { responses, error, calls };
}

function textsOf({ responses }: Outcome): (string | undefined)[] {
  return responses.map(({ outputs }) => {
    const tensor = outputs.find(({ name }) => name === "text_output");
    return tensor === undefined ? undefined : new TextDecoder().decode(tensor.data.subarray(4));
  });
}

test("execute() calls the three models in a row, with the client's id", async () => {
  const outcome = await run(prompt());
  assert.deepEqual(textsOf(outcome), ["cd"]);
  assert.equal(outcome.responses[0]?.final, true);
  assert.deepEqual([...outcome.calls.keys()], ["preprocessing", "tensorrt_llm", "postprocessing"]);
  assert.deepEqual(
    [...outcome.calls.values()].flat().map(({ id }) => id),
    ["client-7", "client-7", "client-7"],
  );
});

for (const [given, expected] of [
  [int32("min_length", [1, 1], 3), "min_length"],
  [int32("min_tokens", [1, 1], 3), "min_tokens"],
  [{ ...int32("random_seed", [1, 1], 3, 0), datatype: "UINT64" }, "random_seed"],
  [{ ...int32("seed", [1, 1], 3, 0), datatype: "UINT64" }, "seed"],
  [int32("top_k", [1, 1], 3), "runtime_top_k"],
  [flag("stream"), "streaming"],
  [int32("num_return_sequences", [1, 1], 1), "num_return_sequences"],
  [int32("lora_config", [1, 2, 3], 1, 2, 3, 4, 5, 6), "lora_config"],
] as const) {
  test(`execute() hands '${given.name}' to the engine as '${expected}'`, async () => {
    const { calls, error } = await run(prompt(given as Tensor));
    assert.equal(error, undefined);
    const found = calls.get("tensorrt_llm")?.[0]?.inputs.find(({ name }) => name === expected);
    assert.deepEqual(found?.shape, given.shape);
    assert.deepEqual(found?.data, given.data);
  });
}

test("execute() hands every output of preprocessing to the engine that has an input for it", async () => {
  const { calls } = await run(prompt());
  const names = calls.get("tensorrt_llm")?.[0]?.inputs.map(({ name }) => name);
  assert.deepEqual(names, ["input_ids", "input_lengths", "end_id"]);
});

test("execute() ends a streamed text at a stop word that came in two parts, and cancels the engine", async () => {
  const stop = texts("stop_words", [1, 1], "lo w");
  const outcome = await run(prompt(flag("stream"), stop), { engine: ["hel", "lo", " world", "!"] });
  assert.deepEqual(textsOf(outcome), ["hel", "lo", " w"]);
  assert.deepEqual(
    outcome.responses.map(({ final }) => final),
    [false, false, true],
  );
  assert.equal(outcome.calls.get("tensorrt_llm")?.[0]?.signal.aborted, true);
});

test("execute() looks for stop words behind the prompt that comes back", async () => {
  const outcome = await run(prompt(texts("stop_words", [1, 2], "ab", "d")), { engine: ["abcdef"] });
  assert.deepEqual(textsOf(outcome), ["abcd"]);
});

test("execute() gives the whole text so far where tokens are accumulated", async () => {
  const change = (text: string): string =>
    text.replace("$" + "{accumulate_tokens}", "True").replace("$" + "{decoupled_mode}", "true");
  const outcome = await run(prompt(flag("stream")), { engine: ["a", "b", "c"], change });
  assert.deepEqual(textsOf(outcome), ["a", "ab", "abc"]);
});

test("execute() calls the engine model that the parameters name", async () => {
  const change = (text: string): string => text.replace("$" + "{tensorrt_llm_model_name}", "ensemble");
  const { calls } = await run(prompt(), { change });
  assert.equal(calls.has("ensemble"), true);
});

for (const [inputs, setup, expected] of [
  [prompt(flag("stream")), { change: (text: string) => text }, "Streaming is only supported in decoupled mode."],
  [prompt(int32("num_draft_tokens", [1, 1], 4)), {}, "cannot perform speculative decoding without draft model"],
  [prompt(texts("image_url_input", [1, 1], "http://x/y.png")), {}, "input 'image_url_input' is not supported"],
  [prompt(), { engine: ["a", "b"], change: (text: string) => text }, "needs a model in decoupled mode"],
  [prompt(), { fail: new ServerError("unavailable", "the engine is full") }, "the engine is full"],
] as const) {
  test(`execute() fails with "${expected}"`, async () => {
    const { error } = await run(inputs, setup);
    assert.ok(error?.message.includes(expected), error?.message);
  });
}

test("execute() fails as cancelled when the client is gone, and the engine hears of it", async () => {
  const { error, calls } = await run(prompt(), { signal: AbortSignal.abort() });
  assert.equal(error?.code, "cancelled");
  assert.equal(calls.get("tensorrt_llm")?.[0]?.signal.aborted, true);
});
