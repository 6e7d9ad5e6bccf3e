/** Backends that are shared libraries: a library of the tests' own in a host process, behind the real schedulers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { compileLibrary, NO_COMPILER } from "../../../../tests/fakes/cpp-library.ts";
import { createTestRepository } from "../../../../tests/fakes/model-repository.ts";
import { until } from "../../../../tests/fakes/python-models.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import { createNativeHostBackend } from "./native-host-backend.ts";

const TENSORS = `input [ { name: "X" data_type: TYPE_INT32 dims: [ -1 ] } ] output [ { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] } ]`;

/** A model `m` of the test backend. */
function config(mode: string, more = TENSORS): string {
  return `backend: "test" parameters { key: "mode" value { string_value: "${mode}" } } ${more}`;
}

describe("the host of C++ backends", { skip: NO_COMPILER }, () => {
  const placeLibrary = NO_COMPILER === false ? compileLibrary("cpp-backend/test_backend.cc") : () => undefined;

  async function served(t: TestContext, text: string) {
    const lines: string[] = [];
    const onVerbose = (line: string): void => void lines.push(line);
    const backends = [createNativeHostBackend("test")];
    const repository = createTestRepository({ "m/config.pbtxt": text, "m/1/.keep": "" }, backends, undefined, {
      onVerbose,
    });
    t.after(() => repository[Symbol.asyncDispose]());
    placeLibrary(join(repository.path, "m", "libtriton_test.so"));
    await repository.manager.load("m", {});
    const model = repository.registry.lookUp("m", "");
    const ask = (values: readonly number[], changes: Partial<InferRequest> = {}) =>
      collect(model.infer(fakeRequest([int32("X", [values.length], values)], changes)));
    const outputs = async (values: readonly number[], changes: Partial<InferRequest> = {}): Promise<number[][]> =>
      (await ask(values, changes)).flatMap((response) => response.outputs.map(int32Values));
    return { repository, model, ask, outputs, lines };
  }

  test("inputs, ids, correlation, flags and parameters reach the backend, and its parameters come back", async (t) => {
    const { ask } = await served(t, config("echo"));
    const [answer] = await ask([1, 2, 3], {
      id: "request 1",
      timeoutUs: 5_000_000,
      parameters: new Map<string, string | number | boolean | { double: number }>([
        ["text", "a b"],
        ["count", -4],
        ["on", false],
        ["rate", { double: 2.5 }],
      ]),
    });
    assert.deepEqual(answer?.outputs.map(int32Values), [[1, 2, 3]]);
    assert.deepEqual(Object.fromEntries(answer?.parameters ?? []), {
      seen: "request 1 0 0 5000000 text=STRING:a b count=INT:-4 on=BOOL:false rate=DOUBLE:2.500000",
      instances: 1,
      yes: true,
      half: { double: 0.5 },
    });
  });

  test("large tensors go through shared memory in both directions, again and again", async (t) => {
    const { outputs } = await served(t, config("echo"));
    for (let round = 0; round < 20; round++) {
      const values = Array.from({ length: 100_000 }, (_, i) => i * round);
      const answers = await Promise.all([outputs(values), outputs([round + 20])]);
      assert.deepEqual(answers, [[values], [[round + 20]]]);
    }
  });

  test("instances share the state of their model and finalize with it", async (t) => {
    const { ask, repository } = await served(
      t,
      config("echo", `${TENSORS} instance_group [ { kind: KIND_CPU count: 3 } ]`),
    );
    const [answer] = await ask([1]);
    assert.equal(answer?.parameters.get("instances"), 3);
    await repository.manager.unload("m", false);
    await until(() => repository.errors.some((line) => line.includes("model finalized")));
  });

  test("a decoupled model answers from a thread after its execution, and its reports reach the statistics", async (t) => {
    const policy = "model_transaction_policy { decoupled: true }";
    const { ask, model } = await served(t, config("repeat", `${TENSORS} ${policy}`));
    const responses = await ask([3000]);
    const values = responses.flatMap(({ outputs }) => outputs.flatMap(int32Values));
    assert.deepEqual(
      values,
      Array.from({ length: 3000 }, (_, i) => i),
    );
    assert.equal(responses.at(-1)?.final, true);
    await until(() => Object.keys(model.statistics.snapshot("m", "1").response_stats).length === 3000);
  });

  test("sequences keep their sums, by numbers and by texts", async (t) => {
    const { outputs } = await served(t, config("accumulate", `${TENSORS} sequence_batching { }`));
    for (const id of [2n ** 64n - 1n, "a text"]) {
      const at = (start: boolean, end: boolean) => ({ sequence: { id, start, end } });
      assert.deepEqual(await outputs([5], at(true, false)), [[5]]);
      assert.deepEqual(await outputs([6], at(false, false)), [[11]]);
      assert.deepEqual(await outputs([20], at(false, true)), [[31]]);
    }
  });

  test("states of a sequence are kept by the server", async (t) => {
    const state = 'state [ { input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]';
    const { outputs } = await served(t, config("state", `${TENSORS} sequence_batching { ${state} }`));
    const at = (start: boolean, end: boolean) => ({ sequence: { id: 1n, start, end } });
    assert.deepEqual(await outputs([5], at(true, false)), [[5]]);
    assert.deepEqual(await outputs([6], at(false, false)), [[11]]);
    assert.deepEqual(await outputs([20], at(false, true)), [[31]]);
  });

  test("a request that the backend gives back runs again, and its earlier responses reach the client", async (t) => {
    const iterative = "sequence_batching { iterative_sequence: true } model_transaction_policy { decoupled: true }";
    const { outputs } = await served(t, config("count down", `${TENSORS} ${iterative}`));
    const sequence = { id: 1n, start: true, end: true };
    assert.deepEqual(await outputs([4], { sequence }), [[3], [2], [1], [0]]);
  });

  test("a backend completes a configuration without tensors", async (t) => {
    const { outputs, model } = await served(t, config("echo", ""));
    assert.deepEqual(
      model.config.input.map(({ name, dims }) => [name, dims]),
      [["X", [-1]]],
    );
    assert.deepEqual(await outputs([4, 5]), [[4, 5]]);
  });

  test("errors of a request, of a batch, and a request without an answer", async (t) => {
    const { ask, outputs } = await served(t, config("echo"));
    await assert.rejects(ask([7]), { code: "invalid_argument", message: "planned failure of a batch" });
    await assert.rejects(ask([9]), /the backend ended the request without a final response/);
    await assert.rejects(ask([11]), /output 'Y' of shape \[1\] needs 4 bytes, the backend gave 3/);
    assert.deepEqual(await outputs([1]), [[1]]);
  });

  test("a crash fails the requests of its process alone, and the next ones are served", async (t) => {
    const { ask, outputs, model } = await served(t, config("echo"));
    const other = await served(t, config("echo"));
    assert.deepEqual(await outputs([1]), [[1]]);
    const [crashed, spared] = await Promise.allSettled([ask([13]), other.outputs([2])]);
    assert.match(
      String(crashed.status === "rejected" && crashed.reason),
      /Backend host 'm' is not healthy\. It was ended by SIGABRT/,
    );
    assert.deepEqual(spared, { status: "fulfilled", value: [[2]] });
    assert.deepEqual(await outputs([3]), [[3]]);
    assert.equal(model.isHealthy(), true);
  });

  test("a cancellation reaches a backend that computes", async (t) => {
    const { ask, repository, lines } = await served(t, config("slow"));
    const abort = new AbortController();
    const asked = ask([1], { signal: abort.signal });
    await until(() => lines.some((line) => line.includes("executing 1 requests")));
    abort.abort();
    await assert.rejects(asked);
    await until(() => repository.errors.some((line) => line.includes("saw the cancellation")));
  });

  for (const mode of ["refuse", "refuse instance"]) {
    test(`a model that says "${mode}" is not loaded, for the backend's reason`, async (t) => {
      await assert.rejects(served(t, config(mode)), /planned refusal/);
    });
  }

  test("a library that is none is named with the loader's words", async (t) => {
    const repository = createTestRepository(
      { "m/config.pbtxt": config("echo"), "m/1/.keep": "", "m/libtriton_test.so": "no library" },
      [createNativeHostBackend("test")],
    );
    t.after(() => repository[Symbol.asyncDispose]());
    await assert.rejects(repository.manager.load("m", {}), /unable to load shared library: .*libtriton_test\.so/);
  });
});
