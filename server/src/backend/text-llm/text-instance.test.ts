import assert from "node:assert/strict";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { fakeRequest, int32 } from "../../../../tests/fakes/requests.ts";
import { bytesTensor, fakeSource, floatTensor, textsOf } from "../../../../tests/fakes/run-instance.ts";
import type { Tensor } from "../../core/tensor.ts";
import {
  type GeneratedChunk,
  type GenerateRequest,
  NEUTRAL_REQUEST,
  type Usage,
} from "../../engine/request/generate.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import { loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import type { BackendRequest, BackendResponse } from "../backend.ts";
import { StoppableRequests } from "../llm/llm-instance.ts";
import { parseLlmSettings } from "../llm/llm-settings.ts";
import { LLMAPI_INTERFACE } from "./llmapi-interface.ts";
import { TextInstance } from "./text-instance.ts";
import { vllmInterface } from "./vllm-interface.ts";

const MODEL = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model", import.meta.url));
const USAGE: Usage = {
  promptTokens: 1,
  outputTokens: 1,
  reusedBlocks: 3,
  newBlocks: 1,
  draftTokens: 4,
  acceptedDraftTokens: 2,
  arrivalNs: 1,
  firstScheduledNs: 2,
  firstTokenNs: 3,
  lastTokenNs: 4,
};

let tokenizer: Tokenizer;
before(async () => {
  tokenizer = await loadTokenizer(MODEL);
});

/** An engine that says a text of its own for each request, all of it in one chunk; later ones are likelier. */
function engineOf(texts: readonly string[], asked: GenerateRequest[]) {
  return {
    isReady: () => true,
    close: () => Promise.resolve(),
    async *generate(request: GenerateRequest): AsyncGenerator<GeneratedChunk> {
      const text = texts[asked.push(request) - 1] ?? "";
      const tokenIds = tokenizer.encode(text, { addSpecialTokens: false });
      const logProbs = new Float32Array(tokenIds.length).fill(-1 / asked.length);
      const cumLogProb = -tokenIds.length / asked.length;
      yield { tokenIds, logProbs, cumLogProb, finishReason: "length", usage: USAGE };
    },
  };
}

async function answersOf(
  kind: "llmapi" | "vllm",
  texts: readonly string[],
  inputs: readonly Tensor[],
  { batchSize = 1, outputs }: { batchSize?: number; outputs: readonly string[] },
): Promise<{ readonly responses: BackendResponse[]; readonly asked: GenerateRequest[] }> {
  const asked: GenerateRequest[] = [];
  const nothing = (): void => undefined;
  const source = fakeSource('name: "m" model_transaction_policy { decoupled: true }', MODEL);
  const facts = {
    modelName: "m",
    settings: parseLlmSettings(source),
    info: {
      vocabSize: 6144,
      hiddenSize: 1,
      blockSize: 16,
      numBlocks: 1,
      maxSequenceLength: 99,
      hasAxes: false,
      takesEmbeddings: false,
      eosTokenIds: [2],
    },
    tokenizer,
    isBatching: batchSize > 1,
  };
  const instance = new TextInstance({
    name: "m_0",
    facts,
    interface: kind === "llmapi" ? LLMAPI_INTERFACE : vllmInterface(undefined),
    engine: engineOf(texts, asked),
    stoppable: new StoppableRequests(),
    log: source.log,
  });
  const responses: BackendResponse[] = [];
  await new Promise<void>((resolve, reject) => {
    const request: BackendRequest = {
      request: fakeRequest(inputs),
      batchSize,
      outputNames: outputs,
      respond: (response) => {
        responses.push(response);
        if (response.final) resolve();
      },
      fail: reject,
      drained: () => undefined,
    };
    instance.execute({ requests: [request], batchSize, computeStarted: nothing, computeEnded: nothing });
  });
  return { responses, asked };
}

const flag = (name: string): Tensor => ({ name, datatype: "BOOL", shape: [1], data: Uint8Array.of(1) });
const named = ({ outputs }: BackendResponse, name: string): string[] =>
  textsOf(outputs.find((output) => output.name === name));

test("a batch of prompts is answered at once, a row for each", async () => {
  const inputs = [
    bytesTensor("text_input", [2, 1], ["Hi", "You"]),
    int32("sampling_param_max_tokens", [2, 1], [3, 4]),
    { ...flag("sampling_param_exclude_input_from_output"), shape: [2, 1], data: Uint8Array.of(1, 0) },
  ];
  const options = { batchSize: 2, outputs: ["text_output"] };
  const { responses, asked } = await answersOf("llmapi", [" there", " too"], inputs, options);
  assert.equal(responses.length, 1);
  assert.deepEqual(responses[0]?.outputs[0]?.shape, [2, 1]);
  assert.deepEqual(responses[0] === undefined ? [] : named(responses[0], "text_output"), [" there", "You too"]);
  assert.deepEqual(
    asked.map(({ maxTokens, topK, endIds }) => [maxTokens, topK, [...endIds]]),
    [
      [3, NEUTRAL_REQUEST.topK, []],
      [4, NEUTRAL_REQUEST.topK, []],
    ],
  );
});

test("the likeliest of several sequences is given, and only outputs that were asked for", async () => {
  const inputs = [
    bytesTensor("text_input", [1], ["Hi"]),
    int32("sampling_param_best_of", [1], [3]),
    floatTensor("sampling_param_temperature", [1], [0.5]),
    flag("sampling_param_exclude_input_from_output"),
    flag("sampling_param_return_perf_metrics"),
  ];
  const outputs = ["text_output", "kv_cache_hit_rate", "acceptance_rate", "finish_reason"];
  const { responses, asked } = await answersOf("llmapi", [" one", " two", " two"], inputs, { outputs });
  const [only] = responses;
  assert.ok(only !== undefined);
  assert.deepEqual([named(only, "text_output"), asked.length], [[" two"], 3]);
  assert.deepEqual([named(only, "kv_cache_hit_rate"), named(only, "acceptance_rate")], [["0.75"], ["0.5"]]);
  assert.equal(only.outputs.length, 3);
});

test("a stream has a response for each token, also when several came at once, and ends with a stop text", async () => {
  const sampling = JSON.stringify({ stop: ["dog"], max_tokens: 9 });
  const inputs = [bytesTensor("text_input", [1], ["Hi"]), bytesTensor("sampling_parameters", [1], [sampling])];
  const outputs = ["text_output", "finish_reason", "num_output_tokens"];
  const asking = [...inputs, flag("stream"), flag("return_finish_reason")];
  const { responses } = await answersOf("vllm", [" there was a dog here"], asking, { outputs });
  const texts = responses.flatMap((response) => named(response, "text_output"));
  assert.equal(texts.join(""), " there was a ");
  assert.ok(texts.length >= 4);
  assert.deepEqual(responses.flatMap((response) => named(response, "finish_reason")).slice(-2), ["None", "stop"]);
  assert.deepEqual(responses.map(({ final }) => final).indexOf(true), responses.length - 1);
});
