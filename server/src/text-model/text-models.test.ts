import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeConfig, fakeInput, fakeOutput } from "../../../tests/fakes/model-config.ts";
import type { ModelServer, ServedModel } from "../core/model-server.ts";
import { ServerError } from "../core/server-error.ts";
import { TextModels } from "./text-models.ts";

/** Text in, text out; `servedName` is the parameter of its configuration. */
function model(name: string, servedName?: string): ServedModel {
  const parameters = servedName === undefined ? {} : { served_model_name: { string_value: servedName } };
  return {
    name,
    version: "1",
    config: fakeConfig({ name, input: [fakeInput("text", [1])], output: [fakeOutput("text", [1])], parameters }),
    inputs: new Map([
      ["text", { name: "text", datatype: "BYTES", shape: [1] }],
      ["lora_name", { name: "lora_name", datatype: "BYTES", shape: [1] }],
    ]),
    outputs: new Map([["text", { name: "text", datatype: "BYTES", shape: [1] }]]),
    decoupled: false,
    label: () => undefined,
    infer: () => assert.fail("no request is sent"),
  };
}

function modelsOf(...all: readonly ServedModel[]): TextModels {
  const server: Pick<ModelServer, "model" | "index"> = {
    index: () => all.map(({ name }) => ({ name })),
    model(name) {
      const found = all.find((each) => each.name === name);
      if (found === undefined) throw new ServerError("not_found", `no model '${name}'`);
      return found;
    },
  };
  return new TextModels(server, () => assert.fail("no template is read"));
}

test("served() finds a model by its own name, by each served name, and with an adapter behind either", () => {
  const models = modelsOf(model("ensemble"), model("tensorrt_llm", "org/tiny:Q4, tiny"));
  for (const name of ["tensorrt_llm", "org/tiny:Q4", "tiny", "org/tiny:Q4:french"]) {
    assert.equal(models.served(name).name, "tensorrt_llm", name);
  }
  assert.equal(models.served("ensemble").name, "ensemble");
  assert.throws(() => models.served("org/tiny"), /no model 'org\/tiny'/);
});

test("served() prefers the model's own name to a served name of another", () => {
  const models = modelsOf(model("a", "b"), model("b"));
  assert.equal(models.served("b").name, "b");
});

test("listed() shows all models, or those with served names alone", () => {
  assert.deepEqual(modelsOf(model("a"), model("b")).listed(), [
    { id: "a", name: "a" },
    { id: "b", name: "b" },
  ]);
  const renamed = modelsOf(model("a"), model("b", "org/b,b2"), model("c", " "));
  assert.deepEqual(renamed.listed(), [{ id: "org/b", name: "b" }]);
});
