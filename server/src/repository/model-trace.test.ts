/** Events that a model reports to the trace of a request, for every way in which the request can end. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository, identityConfig } from "../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32 } from "../../../tests/fakes/requests.ts";
import type { RequestTrace } from "../core/request-trace.ts";
import { ResponseCache } from "../scheduler/cache/response-cache.ts";

const SLOW = 'parameters { key: "execute_delay_ms" value { string_value: "60" } }';
const QUEUE_OF_ONE = "dynamic_batching { default_queue_policy { max_queue_size: 1 } }";
const COMPUTE = ["COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"];
const INPUTS = [int32("INPUT0", [1, 2], [1, 2])];

/** Events reported to the trace of its request, in order. */
function recording(): { readonly trace: RequestTrace; readonly notes: string[] } {
  const notes: string[] = [];
  const trace: RequestTrace = {
    mark: (moment) => void notes.push(moment),
    tensors: () => undefined,
    begin: (version, id) => void notes.push(`begin ${version} ${id}`),
    end: () => void notes.push("end"),
    child: () => trace,
    context: undefined,
  };
  return { trace, notes };
}

async function load(config: string, cache?: ResponseCache): Promise<ReturnType<typeof createTestRepository>> {
  const repository = createTestRepository({ "m/config.pbtxt": config, "m/1/.keep": "" }, [], cache);
  await repository.manager.loadAtStart(undefined);
  return repository;
}

test("a request that succeeds is traced from its begin to its end", async () => {
  await using repository = await load(identityConfig());
  const { trace, notes } = recording();
  await collect(repository.registry.lookUp("m", "").infer(fakeRequest(INPUTS, { id: "r", trace })));
  assert.deepEqual(notes.slice(0, 2), ["begin 1 r", "QUEUE_START"]);
  assert.deepEqual([...notes.slice(2, -2)].sort(), [...COMPUTE, "INFER_RESPONSE_COMPLETE"].sort());
  assert.deepEqual(notes.slice(-2), ["REQUEST_END", "end"]);
});

test("a request that breaks a rule never begins", async () => {
  await using repository = await load(identityConfig());
  const { trace, notes } = recording();
  assert.throws(() => repository.registry.lookUp("m", "").infer(fakeRequest([], { trace })));
  assert.deepEqual(notes, []);
});

test("a request that the queue refuses ends at once", async () => {
  await using repository = await load(identityConfig(`${SLOW} ${QUEUE_OF_ONE}`));
  const model = repository.registry.lookUp("m", "");
  const accepted = [1, 2].map(() => collect(model.infer(fakeRequest(INPUTS))));
  const { trace, notes } = recording();
  assert.throws(() => model.infer(fakeRequest(INPUTS, { trace })), { code: "unavailable" });
  await Promise.all(accepted);
  assert.deepEqual(notes, ["begin 1 ", "QUEUE_START", "REQUEST_END", "end"]);
});

test("a request that is cancelled ends once", async () => {
  await using repository = await load(identityConfig(SLOW));
  const model = repository.registry.lookUp("m", "");
  const running = collect(model.infer(fakeRequest(INPUTS)));
  const { trace, notes } = recording();
  const controller = new AbortController();
  const cancelled = collect(model.infer(fakeRequest(INPUTS, { trace, signal: controller.signal })));
  controller.abort();
  await assert.rejects(cancelled, { code: "cancelled" });
  await running;
  await collect(model.infer(fakeRequest(INPUTS)));
  assert.deepEqual(
    notes.filter((note) => !note.startsWith("COMPUTE_")),
    ["begin 1 ", "QUEUE_START", "REQUEST_END", "end"],
  );
});

test("a request that the cache answers ends without a computation", async () => {
  const config = identityConfig("response_cache { enable: true }");
  await using repository = await load(config, new ResponseCache(1 << 20));
  const model = repository.registry.lookUp("m", "");
  await collect(model.infer(fakeRequest(INPUTS)));
  const { trace, notes } = recording();
  await collect(model.infer(fakeRequest(INPUTS, { trace })));
  assert.deepEqual(notes, ["begin 1 ", "QUEUE_START", "INFER_RESPONSE_COMPLETE", "REQUEST_END", "end"]);
});
