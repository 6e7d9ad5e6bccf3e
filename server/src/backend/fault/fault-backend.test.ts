import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { fakeSource, loadInstance } from "../../../../tests/fakes/run-instance.ts";
import type { InferRequest, ParameterValue } from "../../core/infer-request.ts";
import type { ServerError } from "../../core/server-error.ts";
import type { BackendRequest, BackendResponse, Batch } from "../backend.ts";
import { createFaultBackend } from "./fault-backend.ts";
import { faultOf, faultSettings, settingsOfRequest, streamPlan } from "./fault-settings.ts";

const INPUT = int32("INPUT0", [2], [3, 4]);

function config(parameters: Readonly<Record<string, string>>, isDecoupled = false): string {
  const tensors = `input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 2 ] } ] output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 2 ] } ]`;
  const texts = Object.entries(parameters).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  return `name: "m" backend: "fault" ${tensors} ${texts.join(" ")} model_transaction_policy { decoupled: ${isDecoupled} }`;
}

/** Responses of one request, and how it failed. */
async function streamed(
  parameters: Readonly<Record<string, string>>,
  changes: Partial<InferRequest> = {},
): Promise<{ readonly responses: readonly BackendResponse[]; readonly failure: ServerError | undefined }> {
  await using loaded = await loadInstance(createFaultBackend(), config(parameters, true), "/nowhere");
  const responses: BackendResponse[] = [];
  const failure = await new Promise<ServerError | undefined>((resolve) => {
    const request: BackendRequest = {
      request: fakeRequest([INPUT], changes),
      batchSize: 1,
      outputNames: [],
      respond(response) {
        responses.push(response);
        if (response.final) resolve(undefined);
      },
      fail: resolve,
      drained: () => undefined,
    };
    const batch: Batch = {
      requests: [request],
      batchSize: 1,
      computeStarted: () => undefined,
      computeEnded: () => undefined,
    };
    void loaded.instance.execute(batch);
  });
  return { responses, failure };
}

test("a model of the fault backend without faults gives its inputs back", async () => {
  await using loaded = await loadInstance(createFaultBackend(), config({ latency_ms: "1" }), "/nowhere");
  const outputs = await loaded.run([INPUT]);
  assert.deepEqual(int32Values(outputs.get("OUTPUT0")), [3, 4]);
});

test("errors have the code and the message of the configuration", async () => {
  const parameters = { error_rate: "1", error_code: "unavailable", error_message: "try later" };
  await using loaded = await loadInstance(createFaultBackend(), config(parameters), "/nowhere");
  await assert.rejects(loaded.run([INPUT]), { code: "unavailable", message: "try later" });
});

test("a hanging request ends when its client goes, and does not hold the instance", async () => {
  await using loaded = await loadInstance(createFaultBackend(), config({ hang_rate: "1" }), "/nowhere");
  const client = new AbortController();
  const hanging = loaded.run([INPUT], { signal: client.signal });
  client.abort();
  await assert.rejects(hanging, { code: "cancelled" });
  assert.equal(loaded.instance.load?.(), 0);
});

test("a crash fails what runs and takes the readiness away until the restart", async () => {
  const parameters = { request_faults: "true", restart_ms: "20" };
  await using loaded = await loadInstance(createFaultBackend(), config(parameters), "/nowhere");
  const hanging = loaded.run([INPUT], { parameters: new Map([["fault_hang_rate", 1]]) });
  const crashing = loaded.run([INPUT], { parameters: new Map([["fault_crash_rate", 1]]) });
  const [first, second] = await Promise.allSettled([hanging, crashing]);
  for (const each of [first, second]) {
    assert.equal(each.status, "rejected");
    assert.equal((each as PromiseRejectedResult).reason.code, "unavailable");
  }
  assert.equal(loaded.instance.isReady(), false);
  await assert.rejects(loaded.run([INPUT]), { code: "unavailable" });
  while (!loaded.instance.isReady()) await new Promise(setImmediate);
  assert.equal((await loaded.run([INPUT])).size, 1);
});

for (const [parameters, numResponses, code] of [
  [{ responses: "3" }, 4, undefined],
  [{ responses: "3", end_after_responses: "1" }, 2, undefined],
  [{ responses: "3", fail_after_responses: "2", error_code: "internal" }, 2, "internal"],
  [{ responses: "3", fail_after_responses: "0" }, 0, "internal"],
  [{ responses: "2", fail_after_responses: "2" }, 3, undefined],
] as const) {
  test(`a stream with ${JSON.stringify(parameters)} has ${numResponses} responses and ${code ?? "no error"}`, async () => {
    const { responses, failure } = await streamed(parameters);
    assert.equal(responses.length, numResponses);
    assert.equal(failure?.code, code);
  });
}

test("a stream that stalls ends with its client", async () => {
  const client = new AbortController();
  const stream = streamed({ responses: "3", hang_after_responses: "1" }, { signal: client.signal });
  setImmediate(() => client.abort());
  const { responses, failure } = await stream;
  assert.deepEqual([responses.length, failure?.code], [1, "cancelled"]);
});

test("request parameters count only where the model has request_faults", async () => {
  const parameters = new Map([["fault_error_rate", 1]]);
  await using closed = await loadInstance(createFaultBackend(), config({}), "/nowhere");
  assert.equal((await closed.run([INPUT], { parameters })).size, 1);
  await using open = await loadInstance(createFaultBackend(), config({ request_faults: "true" }), "/nowhere");
  await assert.rejects(open.run([INPUT], { parameters }), { message: "injected fault" });
  const wrong = new Map([["fault_latency", 1]]);
  await assert.rejects(open.run([INPUT], { parameters: wrong }), /has no parameter 'latency', expected latency_ms/);
});

for (const [parameters, message] of [
  [{ latency: "1" }, /model 'm': the fault backend has no parameter 'latency'/],
  [{ error_rate: "2" }, /model 'm': 'error_rate' is a number from 0 to 1, got '2'/],
  [{ responses: "1.5" }, /'responses' is a whole number/],
  [{ error_code: "teapot" }, /'error_code' is one of unknown, internal/],
  [{ error_rate: "0.6", hang_rate: "0.6" }, /are above 1 together/],
  [{ request_faults: "yes" }, /'request_faults' is true or false, got 'yes'/],
  [{ seed: "x" }, /'seed' is an integer, got 'x'/],
] as const) {
  test(`load() refuses ${JSON.stringify(parameters)}`, async () => {
    const load = async (): Promise<unknown> => createFaultBackend().load(fakeSource(config(parameters), "/nowhere"));
    await assert.rejects(load, message);
  });
}

test("faultOf() divides the requests by the rates", () => {
  const settings = faultSettings(
    new Map(Object.entries({ error_rate: "0.2", hang_rate: "0.1", crash_rate: "0.1" })),
    "m",
  );
  assert.deepEqual(
    [0, 0.19, 0.21, 0.29, 0.31, 0.39, 0.41, 0.99].map((draw) => faultOf(settings, draw)),
    ["error", "error", "hang", "hang", "crash", "crash", "none", "none"],
  );
});

test("settingsOfRequest() changes what the request names, doubles and texts alike", () => {
  const settings = faultSettings(new Map([["latency_ms", "5"]]), "m");
  const parameters = new Map<string, ParameterValue>([
    ["fault_responses", "4"],
    ["fault_fail_after_responses", 2],
    ["other", true],
  ]);
  const changed = settingsOfRequest(settings, parameters);
  assert.equal(changed.latencyMs, 5);
  assert.deepEqual(streamPlan(changed), { responses: 2, end: "error" });
});
