import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import type { RequestTrace } from "../../core/request-trace.ts";
import { createIdentityBackend } from "./identity.ts";

function identityConfig(rest: string, optional = true): string {
  return `backend: "identity" max_batch_size: 4
    input [
      { name: "INPUT0" data_type: TYPE_INT32 dims: [ 2 ] },
      { name: "INPUT1" data_type: TYPE_INT32 dims: [ -1, 3 ] ${optional ? "optional: true" : ""} }
    ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 2 ] }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ -1, 3 ] } ]
    ${rest}`;
}

function parameter(key: string, value: string): string {
  return `parameters [ { key: "${key}" value { string_value: "${value}" } } ]`;
}

async function served(config: string) {
  const repository = createTestRepository({ "m/config.pbtxt": config, "m/1/.keep": "" }, [createIdentityBackend()]);
  await repository.manager.load("m", {});
  return repository;
}

test("identity answers zeros for an optional input that is left out, with the rows of the request", async () => {
  await using repository = await served(identityConfig(""));
  const model = repository.registry.lookUp("m", "");
  const [answer] = await collect(model.infer(fakeRequest([int32("INPUT0", [2, 2], [1, 2, 3, 4])])));
  assert.deepEqual(
    answer?.outputs.map((output) => [output.name, output.shape, int32Values(output)]),
    [
      ["OUTPUT0", [2, 2], [1, 2, 3, 4]],
      ["OUTPUT1", [2, 1, 3], [0, 0, 0, 0, 0, 0]],
    ],
  );
  assert.deepEqual(
    [...(answer?.parameters ?? [])],
    [
      ["param0", "an example string parameter"],
      ["param1", 42n],
      ["param2", false],
      ["param3", { double: 123.123 }],
    ],
  );
});

test("identity marks activities in the trace of a request, nested as the model asks", async () => {
  const config = identityConfig(`${parameter("enable_custom_tracing", "true")} ${parameter("nested_span_count", "2")}`);
  await using repository = await served(config);
  const marks: string[] = [];
  const trace: RequestTrace = {
    mark: (moment) => marks.push(moment),
    tensors: () => undefined,
    begin: () => undefined,
    end: () => undefined,
    child: () => trace,
    context: undefined,
  };
  const request = fakeRequest([int32("INPUT0", [1, 2], [1, 2])], { trace });
  await collect(repository.registry.lookUp("m", "").infer(request));
  const custom = marks.filter((name) => name.startsWith("CUSTOM_")).map((name) => name.slice("CUSTOM_".length));
  assert.deepEqual(custom, [
    "ACTIVITY_START",
    "ACTIVITY_END",
    "SINGLE_ACTIVITY",
    "ACTIVITY0_START",
    "SINGLE_ACTIVITY",
    "ACTIVITY1_START",
    "SINGLE_ACTIVITY",
    "ACTIVITY1_END",
    "ACTIVITY0_END",
  ]);
});

test("identity waits before it is created, and refuses a delay that is no number", async () => {
  const startMs = performance.now();
  await using repository = await served(identityConfig(parameter("creation_delay_sec", "0.2")));
  assert.ok(performance.now() - startMs >= 150, "the delay was left out");
  assert.ok(repository.registry.lookUp("m", ""));
  await assert.rejects(
    served(identityConfig(parameter("creation_delay_sec", "soon"))),
    /parameter 'creation_delay_sec' of model 'm' must be a number >= 0, got 'soon'/,
  );
});
