import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository } from "../../../../tests/fakes/model-repository.ts";
import { fakeRequest, int32 } from "../../../../tests/fakes/requests.ts";
import { ServerError } from "../../core/server-error.ts";
import { createSquareBackend } from "./square.ts";

function squareConfig(parameters: Readonly<Record<string, number>>): string {
  const written = Object.entries(parameters).map(
    ([key, value]) => `parameters [ { key: "CUSTOM_${key}" value { string_value: "${value}" } } ]`,
  );
  return `backend: "square" model_transaction_policy { decoupled: true }
    input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ] output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    ${written.join("\n")}`;
}

const COUNTS = ["compute_infer", "compute_output", "success", "fail", "empty_response", "cancel"] as const;

test("the square backend reports each response of a stream, by its place in it", async () => {
  const settings = { FAIL_COUNT: 2, EMPTY_COUNT: 1, INFER_DELAY_NS: 2_000_000, OUTPUT_DELAY_NS: 1_000_000 };
  const files = { "m/config.pbtxt": squareConfig(settings), "m/1/.keep": "" };
  await using repository = createTestRepository(files, [createSquareBackend()]);
  await repository.manager.load("m", {});
  const model = repository.registry.lookUp("m", "");
  const kinds: string[] = [];
  const ask = async (n: number, leaveAfter?: number): Promise<void> => {
    const gone = new AbortController();
    const request = fakeRequest([int32("IN", [1], [n])], { signal: gone.signal });
    for await (const { error, outputs } of model.infer(request)) {
      kinds.push(error?.message ?? String(outputs.length));
      if (kinds.length === leaveAfter) gone.abort();
    }
  };
  await ask(4);
  assert.deepEqual(kinds.splice(0), ["1", "simulated failure", "simulated failure", "0"]);
  await ask(5);
  const { response_stats: stats } = model.statistics.snapshot("m", "1");
  const counts = Object.entries(stats).map(([place, row]) => [place, ...COUNTS.map((name) => row[name].count)]);
  assert.deepEqual(counts, [
    ["0", 2, 2, 2, 0, 0, 0],
    ["1", 2, 2, 1, 1, 0, 0],
    ["2", 2, 2, 0, 2, 0, 0],
    ["3", 2, 1, 0, 1, 1, 0],
    ["4", 1, 0, 0, 0, 1, 0],
  ]);
  const { success, compute_infer, compute_output } = stats["0"] ?? assert.fail();
  assert.ok(compute_infer.ns > 0 && compute_output.ns > 0);
  assert.ok(Math.abs(success.ns - compute_infer.ns - compute_output.ns) < 10);
  kinds.length = 0;
  await assert.rejects(ask(1000, 2), (error) => error instanceof ServerError && error.code === "cancelled");
  const rows = Object.values(model.statistics.snapshot("m", "1").response_stats);
  assert.equal(
    rows.reduce((sum, { cancel }) => sum + cancel.count, 0),
    1,
  );
});

test("a server whose backends report no responses has no statistics of them", async () => {
  const files = { "m/config.pbtxt": squareConfig({}), "m/1/.keep": "" };
  await using repository = createTestRepository(files, [createSquareBackend()]);
  await repository.manager.load("m", {});
  assert.deepEqual(repository.registry.lookUp("m", "").statistics.snapshot("m", "1").response_stats, {});
});
