/**
 * A model server in memory whose models take text: one of token ids with the tokenizer of nereid-tiny, one of text that
 * takes the JSON of a request, and three that give numbers for texts. Their answers are fixed, so that a call costs little.
 */
import { fileURLToPath } from "node:url";
import { type Datatype, packBytesElements } from "@nereid/wire";
import type { InferRequest } from "../../server/src/core/infer-request.ts";
import type { InferResponse } from "../../server/src/core/infer-response.ts";
import type { ModelIndexEntry, ServedModel, TensorMetadata } from "../../server/src/core/model-server.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import { elementCount, type Tensor } from "../../server/src/core/tensor.ts";
import { FakeModelServer } from "../../server/src/protocol/grpc/fake-model-server.test-support.ts";
import { fakeConfig, fakeInput, fakeOutput } from "./model-config.ts";

const TOKENIZER = fileURLToPath(new URL("../../examples/nereid-tiny/language_model", import.meta.url));
const TEXT = 'Let me see. <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>';
/** Shows all that a request may have. */
const TEMPLATE =
  "{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}" +
  "{% if tools %}{{ tools | tojson }}{% endif %}{{ '<assistant>' if add_generation_prompt }}";
const TOKENS = [65, 66, 67, 300, 2];

type Names = readonly (readonly [name: string, datatype: Datatype])[];

const SAMPLING: Names = [
  ["min_tokens", "INT32"],
  ["temperature", "FP32"],
  ["runtime_top_p", "FP32"],
  ["runtime_top_k", "INT32"],
  ["repetition_penalty", "FP32"],
  ["presence_penalty", "FP32"],
  ["frequency_penalty", "FP32"],
  ["random_seed", "UINT64"],
  ["stop_words", "BYTES"],
  ["bad_words", "BYTES"],
  ["streaming", "BOOL"],
  ["return_log_probs", "BOOL"],
  ["num_top_log_probs", "INT32"],
  ["embedding_bias", "FP32"],
  ["guided_decoding_guide_type", "BYTES"],
  ["guided_decoding_guide", "BYTES"],
  ["lora_name", "BYTES"],
  ["cache_salt", "BYTES"],
];

const MODELS: Readonly<Record<string, { readonly inputs: Names; readonly required: number; readonly outputs: Names }>> =
  {
    tokens: {
      inputs: [["input_ids", "INT32"], ["input_lengths", "INT32"], ["request_output_len", "INT32"], ...SAMPLING],
      required: 3,
      outputs: [["output_ids", "INT32"]],
    },
    text: {
      inputs: [
        ["text_input", "BYTES"],
        ["max_tokens", "INT32"],
        ["messages", "BYTES"],
        ["tools", "BYTES"],
        ...SAMPLING,
      ],
      required: 1,
      outputs: [["text_output", "BYTES"]],
    },
    vectors: { inputs: [["text", "BYTES"]], required: 1, outputs: [["embedding", "FP32"]] },
    pairs: {
      inputs: [
        ["text", "BYTES"],
        ["text_pair", "BYTES"],
      ],
      required: 2,
      outputs: [["score", "FP32"]],
    },
    classes: { inputs: [["text", "BYTES"]], required: 1, outputs: [["logits", "FP32"]] },
  };

export const TEXT_MODELS: readonly string[] = Object.keys(MODELS);

export class FakeTextServer extends FakeModelServer {
  readonly #models = new Map(TEXT_MODELS.map((name) => [name, servedModel(name)]));

  override model(name: string): ServedModel {
    const model = this.#models.get(name);
    if (model === undefined) throw new ServerError("not_found", `Request for unknown model: '${name}' is not found`);
    return model;
  }

  override index(): readonly ModelIndexEntry[] {
    return TEXT_MODELS.map((name) => ({ name, version: "1", state: "READY" }));
  }
}

function servedModel(name: string): ServedModel {
  const { inputs, required, outputs } = MODELS[name] ?? { inputs: [], required: 0, outputs: [] };
  return {
    name,
    version: "1",
    config: fakeConfig({
      name,
      input: inputs.map(([input], i) => fakeInput(input, [-1], { optional: i >= required })),
      output: outputs.map(([output]) => fakeOutput(output, [-1], { label_filename: name === "classes" ? "x" : "" })),
      parameters: {
        chat_template: { string_value: TEMPLATE },
        tokenizer_dir: { string_value: TOKENIZER },
        tool_format: { string_value: "hermes" },
        reasoning_format: { string_value: "think" },
      },
    }),
    inputs: tensors(inputs),
    outputs: tensors(outputs),
    decoupled: true,
    folders: { model: TOKENIZER, version: TOKENIZER },
    label: (_, index) => `label ${index}`,
    infer: (request) => answer(name, request),
  };
}

function tensors(names: Names): Map<string, TensorMetadata> {
  return new Map(names.map(([name, datatype]) => [name, { name, datatype, shape: [-1] }]));
}

/** Every input is checked as the server's own validation does; then a part, the rest, and the end. */
async function* answer(name: string, request: InferRequest): AsyncIterable<InferResponse> {
  for (const { shape } of request.inputs) elementCount(shape);
  for (const outputs of answersOf(name, request)) yield response(request, outputs, false);
  yield { ...response(request, [], true), empty: true };
}

function answersOf(name: string, request: InferRequest): readonly (readonly Tensor[])[] {
  switch (name) {
    case "tokens":
      return TOKENS.map((token) => [tensor("output_ids", "INT32", [1, 1, 1], Int32Array.of(token))]);
    case "text":
      return [TEXT.slice(0, 20), TEXT.slice(20)].map((text) => [
        { name: "text_output", datatype: "BYTES", shape: [1], data: packBytesElements([Buffer.from(text)]) },
      ]);
    default: {
      const rows = request.inputs[0]?.shape[0] ?? 1;
      const width = name === "pairs" ? 1 : 4;
      const output = MODELS[name]?.outputs[0]?.[0] ?? "";
      return [[tensor(output, "FP32", [rows, width], new Float32Array(rows * width).fill(0.5))]];
    }
  }
}

function tensor(name: string, datatype: Datatype, shape: readonly number[], values: Int32Array | Float32Array): Tensor {
  return { name, datatype, shape, data: new Uint8Array(values.buffer) };
}

function response({ modelName, id }: InferRequest, outputs: readonly Tensor[], final: boolean): InferResponse {
  return { modelName, modelVersion: "1", id, parameters: new Map(), outputs, final, empty: false };
}
