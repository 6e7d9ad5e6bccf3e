import assert from "node:assert/strict";
import { test } from "node:test";
import type { Datatype } from "@nereid/wire";
import { fakeConfig, fakeInput, fakeOutput } from "../../../tests/fakes/model-config.ts";
import type { TensorMetadata } from "../core/model-server.ts";
import { embeddingSignature } from "./embedding-signature.ts";

interface Case {
  readonly what: string;
  readonly kind: "embeddings" | "score" | "classify" | undefined;
  readonly inputs?: readonly string[];
  readonly output?: readonly [name: string, datatype: Datatype, dims: readonly number[]];
  readonly backend?: string;
  readonly maxBatch?: number;
}

const VECTOR = ["embedding", "FP32", [384]] as const;

const CASES: readonly Case[] = [
  { what: "a text to a vector", kind: "embeddings" },
  { what: "a text of any name", kind: "embeddings", inputs: ["QUESTION"] },
  { what: "a vector of any length", kind: "embeddings", output: ["y", "FP16", [-1]] },
  { what: "a vector without a batch", kind: "embeddings", output: ["y", "FP32", [-1, 384]], maxBatch: 0 },
  { what: "a vector in a row of its own", kind: "embeddings", output: ["y", "FP32", [1, 384]] },
  { what: "a pair to a score", kind: "score", inputs: ["text", "text_pair"], output: ["score", "FP32", [1]] },
  { what: "an image backend", kind: undefined, inputs: ["IMAGE"], backend: "image" },
  { what: "an image backend with names of its own", kind: undefined, inputs: ["input"], backend: "image" },
  { what: "pixels", kind: undefined, output: ["pixel_values", "FP32", [3, 64, 64]] },
  { what: "pixels without a batch", kind: undefined, output: ["y", "FP32", [-1, 3, 64, 64]], maxBatch: 0 },
  { what: "a vector for each token", kind: undefined, output: ["last_hidden_state", "FP32", [-1, 384]] },
  ...["IMAGE", "image_bytes", "images", "IMG", "photo", "video", "audio", "speech_wav"].map((name) => ({
    what: `vectors of '${name}', as an ensemble has them`,
    kind: undefined,
    inputs: [name],
  })),
  { what: "two inputs of which one is an image", kind: undefined, inputs: ["text", "image"] },
];

for (const { what, kind, inputs = ["text"], output = VECTOR, backend = "python", maxBatch = 8 } of CASES) {
  test(`embeddingSignature() takes ${what} for ${kind ?? "no text model"}`, () => {
    const [name, datatype, dims] = output;
    const config = fakeConfig({
      backend,
      max_batch_size: maxBatch,
      input: inputs.map((each) => fakeInput(each, [1])),
      output: [fakeOutput(name, [...dims])],
    });
    const tensor = (each: string, type: Datatype): readonly [string, TensorMetadata] => [
      each,
      { name: each, datatype: type, shape: [-1, 1] },
    ];
    const found = embeddingSignature({
      inputs: new Map(inputs.map((each) => tensor(each, "BYTES"))),
      outputs: new Map([tensor(name, datatype)]),
      config,
    });
    assert.equal(found?.kind, kind);
  });
}
