import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { pythonVenv } from "../python-venv.ts";
import { createModelRepository, EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const venv = await pythonVenv(["numpy"]);
const MODELS = fileURLToPath(new URL("repository", import.meta.url));
const EXAMPLE_MODELS = [
  "add_sub",
  "repeat_int32",
  "square",
  "bls_sync",
  "bls_async",
  "bls_decoupled_sync",
  "bls_decoupled_async",
  "auto_complete",
  "custom_metrics",
  "ready",
  "countdown",
  "countdown_async",
  "running_sum",
  "controller",
];

interface Input {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

interface Answer {
  readonly outputs?: readonly { readonly name: string; readonly data: readonly unknown[] }[];
  readonly error?: string;
}

function input(
  name: string,
  datatype: string,
  data: readonly unknown[],
  shape: readonly number[] = [data.length],
): Input {
  return { name, datatype, shape, data };
}

const FLOATS = [input("INPUT0", "FP32", [1, 2, 3, 4]), input("INPUT1", "FP32", [4, 3, 2, 1])];
const SUMS = { OUTPUT0: [5, 5, 5, 5], OUTPUT1: [-3, -1, 1, 3] };

describe("Python models written as published examples are", { skip: venv.reason, timeout: 600_000 }, () => {
  let repository: ModelRepository;
  let server: ServerProcess;

  async function post(path: string, body: object): Promise<{ status: number; text: string }> {
    const reply = await fetch(`${server.baseUrl}${path}`, { method: "POST", body: JSON.stringify(body) });
    return { status: reply.status, text: await reply.text() };
  }

  async function infer(model: string, inputs: readonly Input[]): Promise<Record<string, readonly unknown[]>> {
    const { text } = await post(`/v2/models/${model}/infer`, { inputs });
    const answer = JSON.parse(text) as Answer;
    assert.equal(answer.error, undefined, `${model}: ${answer.error}`);
    return Object.fromEntries((answer.outputs ?? []).map(({ name, data }) => [name, data]));
  }

  /** The values of one output in the responses of a stream. */
  async function stream(model: string, body: object, output: string): Promise<unknown[]> {
    const { text } = await post(`/v2/models/${model}/generate_stream`, body);
    const events = text.split("\n\n").filter((event) => event.startsWith("data: "));
    return events.map((event) => (JSON.parse(event.slice("data: ".length)) as Record<string, unknown>)[output]);
  }

  before(async () => {
    repository = await createModelRepository({
      copies: [`${EXAMPLES}/simple`, ...EXAMPLE_MODELS.map((name) => `${MODELS}/${name}`)],
    });
    server = await startServerProcess({
      repositories: [repository.path],
      flags: ["--model-control-mode=explicit", "--load-model=*"],
      env: { NEREID_PYTHON: venv.python },
    });
  });
  after(async () => {
    await server.stop();
    await repository[Symbol.asyncDispose]();
  });

  for (const model of ["add_sub", "bls_async"]) {
    test(`${model} adds and subtracts`, async () => assert.deepEqual(await infer(model, FLOATS), SUMS));
  }

  test("bls_sync calls the model it is told, and passes its failure on", async () => {
    assert.deepEqual(await infer("bls_sync", [input("MODEL_NAME", "BYTES", ["add_sub"]), ...FLOATS]), SUMS);
    const { status, text } = await post("/v2/models/bls_sync/infer", {
      inputs: [input("MODEL_NAME", "BYTES", ["nobody"]), ...FLOATS],
    });
    assert.equal(status, 500);
    assert.match(text, /Failed for execute the inference request\. Model 'nobody' is not ready\./);
  });

  test("repeat_int32 answers once an element", async () => {
    const body = { IN: [4, 2, 0], DELAY: [1, 2, 3], WAIT: 5 };
    assert.deepEqual(await stream("repeat_int32", body, "OUT"), [4, 2, 0]);
  });

  test("square answers as often as it is told, also never", async () => {
    assert.deepEqual(await stream("square", { IN: 3 }, "OUT"), [3, 3, 3]);
    assert.deepEqual(await stream("square", { IN: 0 }, "OUT"), []);
  });

  test("models that read the streams of others add them up", async () => {
    assert.deepEqual(await infer("bls_decoupled_sync", [input("IN", "INT32", [4])]), { SUM: [16] });
    assert.deepEqual(await infer("bls_decoupled_async", [input("IN", "INT32", [4])]), { SUM: [32] });
    assert.deepEqual(await infer("bls_decoupled_async", [input("IN", "INT32", [0])]), { SUM: [0] });
  });

  test("auto_complete says what it takes", async () => {
    const config: unknown = await (await fetch(`${server.baseUrl}/v2/models/auto_complete/config`)).json();
    const { max_batch_size, dynamic_batching } = config as Record<string, unknown>;
    assert.equal(max_batch_size, 8);
    assert.notEqual(dynamic_batching, undefined);
    const answer = await infer("auto_complete", [input("INPUT0", "FP32", [1, 2, 3, 4], [1, 4])]);
    assert.deepEqual(answer, { OUTPUT0: [2, 4, 6, 8] });
  });

  for (const model of ["countdown", "countdown_async"]) {
    test(`${model} gives its request back until it is done, several at a time`, async () => {
      const counts = await Promise.all([3, 1, 5].map((from) => stream(model, { IN: from }, "OUT")));
      assert.deepEqual(counts, [[2, 1, 0], [0], [4, 3, 2, 1, 0]]);
    });
  }

  test("running_sum gets the state of its sequence, which the server keeps", async () => {
    const add = async (sequence: number, value: number, more: object): Promise<unknown> => {
      const body = { inputs: [input("IN", "INT32", [value], [1, 1])], parameters: { sequence_id: sequence, ...more } };
      const { text } = await post("/v2/models/running_sum/infer", body);
      return (JSON.parse(text) as Answer).outputs?.map(({ name, data }) => [name, ...data]);
    };
    const start = { sequence_start: true };
    const sums = [await add(1, 5, start), await add(2, 7, start), await add(1, 6, {}), await add(2, 1, {})];
    assert.deepEqual(sums, [[["OUT", 5]], [["OUT", 7]], [["OUT", 11]], [["OUT", 8]]]);
  });

  test("ready has a word in its readiness", async () => {
    const isReady = async (): Promise<number> => (await fetch(`${server.baseUrl}/v2/models/ready/ready`)).status;
    assert.equal(await isReady(), 200);
    for (const [state, expected] of [
      [0, 400],
      [2, 400],
      [1, 200],
    ] as const) {
      await infer("ready", [input("IN", "INT32", [state])]);
      assert.equal(await isReady(), expected);
    }
    const log = server.log();
    assert.ok(log.includes("Model 'ready_0' is not ready (user-defined check failed)."));
    assert.ok(log.includes("Model 'ready_0' is not ready: is_ready() failed: ValueError: planned"));
  });

  test("custom_metrics shows on the page what all of its instances count, and goes with them", async () => {
    const counts: unknown[] = [];
    for (const amount of [1, 3, 20]) counts.push((await infer("custom_metrics", [input("IN", "FP32", [amount])])).OUT);
    assert.deepEqual(counts, [
      [1, 0.5],
      [4, 2.5],
      [24, 19.5],
    ]);
    assert.equal(await readMetric(server, "requests_process_latency_ns", 'model="custom_metrics",version="1"'), 24);
    assert.equal(await readMetric(server, "custom_depth", 'which="a \\"quoted\\" one"'), 19.5);
    const page = async (): Promise<string> => (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text();
    const sizes = (await page()).split("\n").filter((line) => line.includes("custom_sizes"));
    assert.deepEqual(sizes, [
      "# HELP custom_sizes How big",
      "# TYPE custom_sizes histogram",
      'custom_sizes_bucket{le="0.5"} 0',
      'custom_sizes_bucket{le="2"} 1',
      'custom_sizes_bucket{le="10"} 2',
      'custom_sizes_bucket{le="+Inf"} 3',
      "custom_sizes_sum 24",
      "custom_sizes_count 3",
    ]);
    await post("/v2/repository/models/custom_metrics/unload", {});
    await eventually(page, (text) => !text.includes("custom_sizes") && !text.includes("requests_process_latency_ns"));
  });

  test("controller loads, replaces and unloads other models", async () => {
    const control = async (what: string, name: string): Promise<unknown> =>
      (await infer("controller", [input("WHAT", "BYTES", [what, name])])).OUT?.[0];
    assert.equal(await control("ask", "square"), "ready");
    assert.match(String(await control("load", "nobody")), /^refused: /);
    await control("unload", "square");
    await eventually(
      () => control("ask", "square"),
      (text) => text === "not ready",
    );
    assert.equal(await control("load", "square"), "ready");
    assert.equal(await control("load with files", "made_up"), "ready");
  });

  test("the server is as sound as before", () => assertSound(server));
});
