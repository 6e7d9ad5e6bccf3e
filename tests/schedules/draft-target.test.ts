/** A pipeline's drafting over two engines of the real backend: the answer is the one that comes without. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { ModelCaller } from "../../server/src/backend/backend.ts";
import { generate } from "../../server/src/backend/bls/draft-target.ts";
import {
  bool,
  call,
  FOLDER,
  fp32,
  int32,
  notDecoupled,
  prompt,
  serve,
  values,
} from "../../server/src/backend/llm/llm.test-support.ts";
import { parseModelConfigText } from "../../server/src/config/model/model-config.ts";
import { type InferRequest, NO_PARAMETERS, NO_SEQUENCE } from "../../server/src/core/infer-request.ts";
import type { InferResponse } from "../../server/src/core/infer-response.ts";
import { signatureOf } from "../../server/src/core/model-signature.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";

const SETTINGS = {
  preprocessing: "",
  postprocessing: "",
  engine: "target",
  draftEngine: "draft",
  encoders: undefined,
  accumulates: false,
  isDecoupled: false,
};
const OUTPUTS = ["output_ids", "sequence_length", "output_log_probs", "acceptance_rate", "total_draft_tokens"];

for (const [name, sampling] of [
  ["greedy", []],
  ["drawn", [int32("runtime_top_k", [1], 20), fp32("temperature", [1], 1.3), int32("random_seed", [1], 5)]],
] as const) {
  test(`generate() drafts with one engine and answers with the other: ${name} tokens are those of the engine alone`, async (t) => {
    const config = parseModelConfigText(notDecoupled(readFileSync(`${FOLDER}/config.pbtxt`, "utf8")), "config.pbtxt");
    const { instance } = await serve(t, notDecoupled);
    let numCalls = 0;
    const models: ModelCaller = {
      signature: (modelName) => ({ ...signatureOf(config), modelName }),
      async *infer({ inputs, outputs, modelName }): AsyncIterable<InferResponse> {
        numCalls += 1;
        const { responses, ended } = call(instance, inputs, { outputNames: outputs });
        const error = await ended;
        if (error !== undefined) throw error;
        const common = { modelName, modelVersion: "1", id: "", parameters: NO_PARAMETERS, empty: false };
        for (const { outputs: given = [] } of responses) yield { ...common, outputs: given, final: true };
      },
    };
    const inputs = prompt([3, 9, 27], 20, bool("return_log_probs", [1], true), ...sampling);
    const plain = await answer(models, inputs, 0);
    assert.equal(numCalls, 1);
    const drafted = await answer(models, inputs, 4);
    for (const output of OUTPUTS.slice(0, 3)) assert.deepEqual(values(drafted, output), values(plain, output));
    assert.ok((values(drafted, "total_draft_tokens").values[0] ?? 0) >= 16);
    assert.ok(numCalls > 8);
  });
}

async function answer(models: ModelCaller, inputs: readonly Tensor[], numDraftTokens: number): Promise<InferResponse> {
  const request: InferRequest = {
    modelName: "target",
    modelVersion: "",
    id: "",
    inputs,
    outputs: OUTPUTS,
    parameters: NO_PARAMETERS,
    sequence: NO_SEQUENCE,
    priority: 0,
    timeoutUs: 0,
    signal: new AbortController().signal,
    origin: { key: {}, isLast: true },
    arrivalMs: 0,
  };
  for await (const response of generate(models, SETTINGS, { request, numDraftTokens })) return response;
  throw new Error("no response");
}
