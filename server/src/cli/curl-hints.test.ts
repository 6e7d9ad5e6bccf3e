import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelServer, ServedModel, TensorMetadata } from "../core/model-server.ts";
import { curlHints } from "./curl-hints.ts";

type Tensors = readonly (readonly [name: string, datatype: string, shape: readonly number[]])[];

const ENDPOINTS = new Map([["http", { address: "0.0.0.0", port: 9 }]]);

function hint(inputs: Tensors, outputs: Tensors = [], optional: readonly string[] = []): string {
  const metadata = (tensors: Tensors) =>
    new Map(tensors.map(([name, datatype, shape]) => [name, { name, datatype, shape } as TensorMetadata]));
  const model = {
    name: "m",
    version: "1",
    config: { input: optional.map((name) => ({ name, optional: true })) },
    inputs: metadata(inputs),
    outputs: metadata(outputs),
    decoupled: false,
  } as unknown as ServedModel;
  const server: Pick<ModelServer, "index" | "model"> = {
    index: () => [{ name: "m", version: "1", state: "READY", reason: "" }],
    model: () => model,
  };
  return (
    curlHints(server as ModelServer, ENDPOINTS, { controlMode: "none", paths: ["/models"] })
      .split("# m\n")[1]
      ?.trimEnd() ?? ""
  );
}

/** The text after -d, without its quotes. */
function body(text: string): unknown {
  return JSON.parse(/-d '(.*)'/.exec(text)?.[1] ?? "");
}

test("curlHints() asks for an inference with the tensors that a model needs", () => {
  assert.equal(
    hint([["A", "INT32", [-1, 2]]]),
    `curl -X POST http://localhost:9/v2/models/m/infer -d '{"inputs": [{"name":"A","datatype":"INT32","shape":[1,2],"data":[1,2]}]}'`,
  );
});

test("curlHints() asks a model of texts to generate, with the image that it insists on", () => {
  const asked = body(
    hint([
      ["image", "BYTES", [-1, -1]],
      ["text_input", "BYTES", [-1, 1]],
      ["max_tokens", "INT32", [-1, 1]],
    ]),
  ) as { image: string };
  assert.deepEqual(Object.keys(asked), ["text_input", "max_tokens", "image"]);
  assert.equal(Buffer.from(asked.image, "base64").subarray(1, 4).toString(), "PNG");
});

test("curlHints() names the length as the LLM API does", () => {
  const inputs = ["text_input", "sampling_param_max_tokens"].map((name) => [name, "BYTES", [-1]] as const);
  assert.match(hint(inputs), /"text_input": "What is machine learning\?", "sampling_param_max_tokens": 20\}/);
});

test("curlHints() gives inputs of images an image", () => {
  const { inputs } = body(hint([["IMAGE", "BYTES", [1]]])) as { inputs: readonly { data: readonly string[] }[] };
  assert.match(inputs[0]?.data[0] ?? "", /^iVBORw0KGgo/);
});

test("curlHints() sends large tensors as bytes, floats with a length above 0", () => {
  assert.match(hint([["A", "FP32", [-1, 128]]]), /^head -c 512 \/dev\/zero \| tr '\\0' '\?' \| curl /);
  assert.match(hint([["A", "UINT8", [-1, 128]]]), /^head -c 128 \/dev\/zero \| curl /);
});

test("curlHints() describes a large tensor where the model has other inputs that are optional", () => {
  const inputs = [["A", "FP32", [128]] as const, ["K", "INT32", [1]] as const];
  const text = hint(inputs, [], ["K"]);
  const [, head = "", length] = /printf %s '(.*?)';.* 'Inference-Header-Content-Length: (\d+)'/.exec(text) ?? [];
  assert.equal(head.length, Number(length));
  assert.deepEqual((JSON.parse(head) as { inputs: unknown }).inputs, [
    { name: "A", datatype: "FP32", shape: [128], parameters: { binary_data_size: 512 } },
  ]);
});

test("curlHints() asks for bytes in a file where outputs have a type that JSON does not carry", () => {
  const text = hint([["A", "INT32", [1]]], [["B", "FP16", [1]]]);
  assert.match(text, / -o answer\.bin$/);
  assert.deepEqual((body(text) as { parameters: unknown }).parameters, { binary_data_output: true });
});

for (const [controlMode, expected] of [
  ["none", /No model is served from \/models: expected a folder for each model/],
  ["explicit", /^\nhttp {5}http:\/\/localhost:9\n\n$/],
] as const) {
  test(`curlHints() of an empty repository in mode ${controlMode}`, () => {
    const server: Pick<ModelServer, "index"> = { index: () => [] };
    assert.match(curlHints(server as ModelServer, ENDPOINTS, { controlMode, paths: ["/models"] }), expected);
  });
}
