import assert from "node:assert/strict";
import { test } from "node:test";
import { type InferRequest, NO_PARAMETERS, NO_SEQUENCE } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ModelSignature } from "../../core/model-signature.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { ModelCaller } from "../backend.ts";
import { intValues } from "../tokenizer/tensor-values.ts";
import type { BlsSettings } from "./bls-settings.ts";
import { generate } from "./draft-target.ts";

const END = 13;
const SETTINGS: BlsSettings = {
  preprocessing: "preprocessing",
  postprocessing: "postprocessing",
  engine: "target",
  draftEngine: "draft",
  encoders: undefined,
  accumulates: false,
  isDecoupled: false,
};

function int32(name: string, shape: readonly number[], ...values: number[]): Tensor {
  return { name, datatype: "INT32", shape, data: new Uint8Array(Int32Array.from(values).buffer) };
}

/** A model whose next token depends on the previous ones; the draft model errs at every seventh index. */
function nextToken(model: string, tokens: readonly number[]): number {
  const right = (tokens.reduce((sum, token) => sum * 3 + token, 7) >>> 0) % 40;
  return model === "draft" && tokens.length % 7 === 0 ? (right + 1) % 40 : right;
}

function inputInts({ inputs }: InferRequest, name: string): number[] {
  const tensor = inputs.find((input) => input.name === name);
  return tensor === undefined ? [] : [...intValues(tensor)];
}

class Models implements ModelCaller {
  readonly requests: InferRequest[] = [];
  readonly #excludes: boolean;

  constructor(excludes: boolean) {
    this.#excludes = excludes;
  }

  signature(modelName: string): ModelSignature {
    const inputs = ["input_ids", "input_lengths", "request_output_len", "draft_input_ids"];
    if (this.#excludes) inputs.push("exclude_input_in_output");
    const named = (names: readonly string[]) => new Map(names.map((name) => [name, { name }]));
    const outputs = named(["output_ids", "sequence_length", "total_draft_tokens", "acceptance_rate"]);
    return { modelName, maxBatchSize: 8, inputs: named(inputs), outputs } as unknown as ModelSignature;
  }

  async *infer(request: InferRequest): AsyncIterable<InferResponse> {
    this.requests.push(request);
    const prompt = inputInts(request, "input_ids");
    const tokens = [...prompt];
    const [count = 0] = inputInts(request, "request_output_len");
    while (tokens.length < prompt.length + count) {
      const token = nextToken(request.modelName, tokens);
      if (token === END) break;
      tokens.push(token);
    }
    const isExcluded = request.inputs.some(({ name }) => name === "exclude_input_in_output");
    const told = isExcluded ? tokens.slice(prompt.length) : tokens;
    yield {
      modelName: request.modelName,
      modelVersion: "1",
      id: "",
      parameters: NO_PARAMETERS,
      outputs: [
        int32("output_ids", [1, 1, told.length + 1], ...told, -1),
        int32("sequence_length", [1, 1], told.length),
        int32("total_draft_tokens", [1, 1], 99),
      ],
      final: true,
      empty: false,
    };
  }
}

function request(prompt: readonly number[], maxTokens: number, ...more: Tensor[]): InferRequest {
  return {
    modelName: "target",
    modelVersion: "",
    id: "",
    inputs: [
      int32("input_ids", [1, prompt.length], ...prompt),
      int32("input_lengths", [1, 1], prompt.length),
      int32("request_output_len", [1, 1], maxTokens),
      ...more,
    ],
    outputs: [],
    parameters: NO_PARAMETERS,
    sequence: NO_SEQUENCE,
    priority: 0,
    timeoutUs: 0,
    signal: new AbortController().signal,
    origin: { key: {}, isLast: true },
    arrivalMs: 0,
  };
}

async function answer(models: Models, numDraftTokens: number, asked: InferRequest): Promise<InferResponse> {
  let last: InferResponse | undefined;
  for await (const response of generate(models, SETTINGS, { request: asked, numDraftTokens })) last = response;
  assert.ok(last !== undefined, "a response");
  return last;
}

for (const excludes of [true, false]) {
  for (const [first, maxTokens] of [
    [1, 30],
    [2, 1],
    [5, 64],
    [9, 17],
  ] as const) {
    test(`generate() gives the engine's own answer to ${maxTokens} tokens after ${first}, in fewer calls`, async () => {
      const prompt = [first, 4, 6];
      const plain = await answer(new Models(excludes), 0, request(prompt, maxTokens));
      const models = new Models(excludes);
      const drafted = await answer(models, 5, request(prompt, maxTokens));
      assert.deepEqual(drafted.outputs.slice(0, 2), plain.outputs.slice(0, 2));
      const numNew = (intValues(plain.outputs[1] as Tensor)[0] ?? 0) - prompt.length;
      const lastRequest = models.requests.at(-1);
      assert.ok(lastRequest !== undefined);
      const told = [...intValues(plain.outputs[0] as Tensor)];
      assert.deepEqual(inputInts(lastRequest, "draft_input_ids"), told.slice(prompt.length, prompt.length + numNew));
      const calls = models.requests.filter(({ modelName }) => modelName === "target").length;
      assert.ok(calls <= 2 + numNew / 3, `${calls} calls for ${numNew} tokens`);
      const [figure] = drafted.outputs.slice(2).map((output) => intValues(output)[0]);
      const numDrafted = models.requests
        .filter(({ modelName }) => modelName === "target")
        .slice(0, -1)
        .reduce((sum, each) => sum + inputInts(each, "draft_input_ids").length, 0);
      assert.equal(figure, numDrafted);
    });
  }
}

const bool = (name: string): Tensor => ({ name, datatype: "BOOL", shape: [1, 1], data: Uint8Array.of(1) });
for (const [asked, expected] of [
  [request([1], 4, bool("streaming")), /not supported with 'streaming'/],
  [request([1], 4, bool("return_context_logits")), /not supported with 'return_context_logits'/],
  [
    { ...request([1], 4), inputs: [int32("input_ids", [2, 1], 1, 2), ...request([1], 4).inputs.slice(1)] },
    /not supported with more than one row/,
  ],
] as const) {
  test(`generate() refuses to draft: ${expected}`, async () => {
    await assert.rejects(async () => answer(new Models(true), 4, asked), expected);
  });
}
