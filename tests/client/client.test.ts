/** The client against the real server, over HTTP and gRPC: what users do first, and every call that manages the server. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import {
  ClientError,
  type Datatype,
  type InputElements,
  type JsonRecord,
  NereidClient,
  NereidGrpcClient,
  SystemMemory,
  tensor,
  tensorValue,
  toBfloat16,
  toFloat16,
} from "@nereid/client";
import { EXAMPLES, SIMPLE_AND_PIPELINE } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { type ClientServer, startClientServer } from "./client-models.ts";

const PROMPT = { text_input: "Once upon a time", max_tokens: 8, bad_words: "", stop_words: "", temperature: 0 };
const COUNTED = Int32Array.from({ length: 16 }, (_, i) => i);
const ONES = new Int32Array(16).fill(1);
const ADDED = { INPUT0: tensorValue("INT32", [1, 16], COUNTED), INPUT1: tensorValue("INT32", [1, 16], ONES) };

const ELEMENTS: { readonly [D in Datatype]: InputElements[D] } = {
  BOOL: Uint8Array.of(1, 0),
  UINT8: Uint8Array.of(1, 255),
  UINT16: Uint16Array.of(1, 65_535),
  UINT32: Uint32Array.of(1, 2 ** 32 - 1),
  UINT64: BigUint64Array.of(1n, 2n ** 64n - 1n),
  INT8: Int8Array.of(1, -128),
  INT16: Int16Array.of(1, -32_768),
  INT32: Int32Array.of(1, -(2 ** 31)),
  INT64: BigInt64Array.of(1n, -(2n ** 63n)),
  FP16: toFloat16([1, -0.5]),
  FP32: Float32Array.of(1, -0.5),
  FP64: Float64Array.of(1, 1e-300),
  BF16: toBfloat16([1, -0.5]),
  BYTES: [Uint8Array.of(255, 1), new Uint8Array(0)],
};

let started: ClientServer;
let server: ServerProcess;
let pipeline: ServerProcess;
let http: NereidClient;
let grpc: NereidGrpcClient;
before(async () => {
  started = await startClientServer();
  server = started.server;
  http = new NereidClient({ url: server.baseUrl });
  grpc = new NereidGrpcClient({ url: `http://127.0.0.1:${server.grpc}` });
  pipeline = await startServerProcess({ repositories: [EXAMPLES], flags: SIMPLE_AND_PIPELINE });
});
after(async () => {
  http?.close();
  grpc?.close();
  await pipeline?.stop();
  await started?.[Symbol.asyncDispose]();
});

const PROTOCOLS: readonly [protocol: string, client: () => NereidClient | NereidGrpcClient][] = [
  ["HTTP", () => http],
  ["gRPC", () => grpc],
];

for (const [protocol, clientOf] of PROTOCOLS) {
  test(`${protocol}: the server and its models are ready and described`, async () => {
    const client = clientOf();
    assert.deepEqual([await client.isLive(), await client.isReady()], [true, true]);
    assert.deepEqual([await client.model("simple").isReady(), await client.model("nope").isReady()], [true, false]);
    assert.ok((await client.serverMetadata()).extensions.includes("binary_tensor_data"));
    const { name, inputs } = await client.model("simple", 1).metadata();
    assert.deepEqual([name, inputs[0]], ["simple", { name: "INPUT0", datatype: "INT32", shape: [-1, 16] }]);
    assert.equal((await client.model("simple").config()).max_batch_size, 8);
  });

  test(`${protocol}: infer() adds and subtracts, with inputs by name and chosen outputs`, async () => {
    const model = clientOf().model("simple");
    const result = await model.infer({ inputs: ADDED, id: "42" });
    assert.deepEqual([result.id, result.modelName, result.modelVersion], ["42", "simple", "1"]);
    assert.deepEqual(
      result.output("OUTPUT0", "INT32").data,
      COUNTED.map((x) => x + 1),
    );
    const one = await model.infer({ inputs: ADDED, outputs: ["OUTPUT1"] });
    assert.deepEqual(
      one.outputs.map(({ name, shape }) => [name, ...shape]),
      [["OUTPUT1", 1, 16]],
    );
    const statistics = await model.statistics();
    assert.ok((statistics[0]?.inference_count ?? 0) >= 2);
    const all = await clientOf().statistics();
    assert.ok(all.some(({ name }) => name === "simple"));
  });

  for (const [datatype, elements] of Object.entries(ELEMENTS) as [Datatype, InputElements[Datatype]][]) {
    test(`${protocol}: ${datatype} comes back as it was sent, compressed and not`, async () => {
      const model = clientOf().model(`id_${datatype.toLowerCase()}`);
      const inputs = [tensor("IN", datatype, [2], elements)];
      for (const compression of [undefined, "gzip", "deflate"] as const) {
        const result = await model.infer({ inputs, compression, responseCompression: compression });
        assert.deepEqual(result.output("OUT", datatype).data, elements);
      }
    });
  }

  test(`${protocol}: texts and half floats are read as such`, async () => {
    const client = clientOf();
    const texts = await client.model("id_bytes").infer({ inputs: [tensor("IN", "BYTES", [2], ["é", ""])] });
    assert.deepEqual(texts.texts("OUT"), ["é", ""]);
    const halves = await client.model("id_bf16").infer({ inputs: [tensor("IN", "BF16", [2], toBfloat16([1.5, -2]))] });
    assert.deepEqual(halves.floats("OUT"), Float32Array.of(1.5, -2));
  });

  test(`${protocol}: a sequence sums its requests`, async () => {
    const sequence = clientOf().model("accumulate").sequence();
    const call = (value: number) => ({ inputs: [tensor("INPUT", "INT32", [1, 1], Int32Array.of(value))] });
    const results = [await sequence.infer(call(1)), await sequence.infer(call(2)), await sequence.end(call(3))];
    assert.deepEqual(
      results.map((result) => result.output("OUTPUT", "INT32").data[0]),
      [1, 3, 6],
    );
  });

  test(`${protocol}: inputs and outputs lie in shared memory`, async () => {
    const client = clientOf();
    const name = `region_${protocol}`;
    using memory = new SystemMemory({ name, key: `/nereid-client-${protocol}-${process.pid}`, byteSize: 4096 });
    await client.sharedMemory.registerSystem(memory.region);
    const regions = await client.sharedMemory.status("system", { name });
    assert.deepEqual(regions, [{ name, key: memory.region.key, byteSize: 4096, offset: 0 }]);
    const inputs = [
      tensor("INPUT0", "INT32", [1, 16], memory.write("INT32", COUNTED)),
      tensor("INPUT1", "INT32", [1, 16], memory.write("INT32", ONES, 64)),
    ];
    const outputs = [{ name: "OUTPUT0", memory: memory.part(64, 128) }, "OUTPUT1"] as const;
    const result = await client.model("simple").infer({ inputs, outputs });
    assert.deepEqual([result.output("OUTPUT0").region, result.output("OUTPUT0").shape], [name, [1, 16]]);
    assert.deepEqual(
      memory.read("INT32", 64, 128),
      COUNTED.map((x) => x + 1),
    );
    assert.equal(result.output("OUTPUT1", "INT32").data[3], 2);
    await client.sharedMemory.unregister("system", { name });
    assert.deepEqual(await client.sharedMemory.status("system"), []);
    assert.deepEqual(await client.sharedMemory.status("cuda"), []);
    const cuda = { name: "c", rawHandle: new Uint8Array(64), deviceId: 0, byteSize: 16 };
    await assert.rejects(client.sharedMemory.registerCuda(cuda), { kind: "server" });
  });

  test(`${protocol}: trace and log settings are read and changed`, async () => {
    const { settings } = clientOf();
    const changed = await settings.updateTrace({ trace_rate: 500, trace_count: null });
    assert.deepEqual([changed.trace_rate, changed.trace_level], ["500", ["OFF"]]);
    assert.deepEqual(await settings.trace({ model: "simple" }), await settings.trace());
    const ofModel = await settings.updateTrace({ log_frequency: "7" }, { model: "simple" });
    assert.deepEqual([ofModel.log_frequency, (await settings.trace()).log_frequency], ["7", "0"]);
    await settings.updateTrace({ log_frequency: null }, { model: "simple" });
    assert.equal((await settings.updateLog({ log_verbose_level: 1, log_info: true })).log_verbose_level, 1);
    assert.equal((await settings.updateLog({ log_verbose_level: 0 })).log_verbose_level, 0);
    assert.equal((await settings.log()).log_verbose_level, 0);
  });

  test(`${protocol}: load() and unload() change what the index says, also with files and a configuration`, async () => {
    const { repository } = clientOf();
    const stateOf = async (name: string): Promise<string | undefined> =>
      (await repository.index()).find((entry) => entry.name === name)?.state;
    const model = await readFile(join(started.path, "id_fp32/1/model.onnx"));
    const name = `sent_${protocol.toLowerCase()}`;
    await repository.load(name, {
      config: { backend: "onnxruntime", parameters: {} },
      files: { "1/model.onnx": model },
    });
    assert.equal(await clientOf().model(name).isReady(), true);
    await repository.load("text_encoder");
    assert.equal(await stateOf("text_encoder"), "READY");
    await repository.unload("text_encoder");
    assert.ok((await repository.index({ isReady: true })).every(({ state }) => state === "READY"));
    await repository.unload(name, { unloadDependents: true });
    assert.equal(await clientOf().model(name).isReady(), false);
    assert.notEqual(await stateOf("text_encoder"), "READY");
    await assert.rejects(repository.load("nope"), { kind: "server", model: "nope" });
  });

  test(`${protocol}: errors are the server's, with the model, the request and a hint`, async () => {
    const inputs = [tensor("INPUT0", "INT32", [1, 16], new Int32Array(16))];
    await assert.rejects(clientOf().model("simple").infer({ inputs, id: "9" }), (error) => {
      assert.ok(error instanceof ClientError);
      assert.deepEqual([error.kind, error.isRetryable, error.model, error.requestId], ["server", false, "simple", "9"]);
      assert.match(error.message, /expected 2 inputs but got 1 inputs for model 'simple'/);
      assert.match(error.hint ?? "", /metadata\(\)/);
      return true;
    });
    const wrong = [tensor("IN", "FP32", [1, 2], Float32Array.of(1, 2))];
    await assert.rejects(clientOf().model("id_fp32").infer({ inputs: wrong }), /Expected \[-1\], got \[1,2\]/);
  });

  test(`${protocol}: limits and signals end calls at the server`, async () => {
    const model = clientOf().model("slow");
    const inputs = [tensor("INPUT0", "INT32", [1], Int32Array.of(1))];
    await assert.rejects(model.infer({ inputs, timeoutMs: 50 }), { kind: "timeout", model: "slow" });
    const controller = new AbortController();
    const call = model.infer({ inputs, signal: controller.signal });
    controller.abort(new Error("enough"));
    await assert.rejects(call, /^Error: enough$/);
  });
}

test("both protocols describe models and their statistics alike", async () => {
  for (const name of ["simple", "repeat", "accumulate"]) {
    assert.deepEqual(await grpc.model(name).config(), await http.model(name).config());
    assert.deepEqual(await grpc.model(name).metadata(), await http.model(name).metadata());
    assert.deepEqual(await grpc.model(name).statistics(), await http.model(name).statistics());
  }
});

test("generateStream() gives in parts what generate() gives at once, and can be left early", async () => {
  using client = new NereidClient({ url: pipeline.baseUrl });
  const model = client.model("ensemble");
  const { text_output: whole } = await model.generate(PROMPT);
  const parts: JsonRecord[] = [];
  for await (const part of model.generateStream({ ...PROMPT, stream: true })) parts.push(part);
  assert.ok(parts.length > 1, `${parts.length} parts`);
  const text = parts.map((part) => part.text_output).join("");
  assert.ok(text.length > 0);
  assert.equal(text, whole);
  for await (const part of model.generateStream({ ...PROMPT, max_tokens: 500, stream: true })) {
    assert.equal(part.model_name, "ensemble");
    break;
  }
  assert.equal(await client.isReady(), true);
});

test("inferStream() gives each response of a decoupled model", async () => {
  const model = grpc.model("repeat");
  const read = async (values: Int32Array): Promise<unknown[]> => {
    const results: unknown[] = [];
    const inputs = [tensor("IN", "INT32", [values.length], values)];
    for await (const result of model.inferStream({ inputs })) results.push(result.output("OUT", "INT32").data[0]);
    return results;
  };
  assert.deepEqual(await read(Int32Array.of(7, 8, 9)), [7, 8, 9]);
  assert.deepEqual(await read(new Int32Array(0)), []);
});

test("openStream() answers requests in order, and an error of one does not end it", async () => {
  await using stream = grpc.model("simple").openStream();
  await stream.send({ inputs: ADDED, id: "1" });
  await stream.send({ inputs: [], id: "2" });
  await stream.send({ inputs: ADDED, id: "3" });
  stream.end();
  const responses: unknown[] = [];
  for await (const response of stream) {
    responses.push(response instanceof ClientError ? ["failed", response.requestId] : response.id);
  }
  assert.deepEqual(responses, ["1", ["failed", "2"], "3"]);
});
