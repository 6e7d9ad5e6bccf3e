/** The client against the real server with the example models: what users do first. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ClientError, type JsonRecord, NereidClient, tensor } from "@nereid/client";
import { EXAMPLES } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const PROMPT = { text_input: "Once upon a time", max_tokens: 8, bad_words: "", stop_words: "", temperature: 0 };
let server: ServerProcess;
let client: NereidClient;
before(async () => {
  const flags = ["--model-control-mode=explicit", "--load-model=simple", "--load-model=ensemble"];
  server = await startServerProcess({ repositories: [EXAMPLES], flags });
  client = new NereidClient({ url: server.baseUrl });
});
after(() => server?.stop());

test("the server and its models are ready and described", async () => {
  assert.deepEqual([await client.isLive(), await client.isReady()], [true, true]);
  assert.deepEqual([await client.model("simple").isReady(), await client.model("nope").isReady()], [true, false]);
  assert.ok((await client.serverMetadata()).extensions.includes("binary_tensor_data"));
  const { name, inputs } = await client.model("simple", 1).metadata();
  assert.deepEqual([name, inputs[0]], ["simple", { name: "INPUT0", datatype: "INT32", shape: [-1, 16] }]);
  assert.equal((await client.model("simple").config()).max_batch_size, 8);
});

test("infer() adds and subtracts", async () => {
  const a = Int32Array.from({ length: 16 }, (_, i) => i);
  const inputs = [
    tensor("INPUT0", "INT32", [1, 16], a),
    tensor("INPUT1", "INT32", [1, 16], new Int32Array(16).fill(1)),
  ];
  const result = await client.model("simple").infer({ inputs, id: "42" });
  assert.deepEqual([result.id, result.modelName, result.modelVersion], ["42", "simple", "1"]);
  assert.deepEqual(
    result.output("OUTPUT0", "INT32").data,
    a.map((x) => x + 1),
  );
  assert.deepEqual(result.output("OUTPUT1", "INT32").shape, [1, 16]);
  const one = await client.model("simple").infer({ inputs, outputs: ["OUTPUT1"] });
  assert.deepEqual(
    one.outputs.map(({ name }) => name),
    ["OUTPUT1"],
  );
  const [statistics] = await client.model("simple").statistics();
  assert.equal(statistics?.inference_count, 2);
});

test("generateStream() gives in parts what generate() gives at once", async () => {
  const model = client.model("ensemble");
  const { text_output: whole } = await model.generate(PROMPT);
  const parts: JsonRecord[] = [];
  for await (const part of model.generateStream({ ...PROMPT, stream: true })) parts.push(part);
  assert.ok(parts.length > 1, `${parts.length} parts`);
  const text = parts.map((part) => part.text_output).join("");
  assert.ok(text.length > 0);
  assert.equal(text, whole);
});

test("generateStream() can be left early, and the server goes on", async () => {
  for await (const part of client.model("ensemble").generateStream({ ...PROMPT, max_tokens: 500, stream: true })) {
    assert.equal(part.model_name, "ensemble");
    break;
  }
  assert.equal(await client.isReady(), true);
});

test("errors are the server's", async () => {
  const inputs = [tensor("INPUT0", "INT32", [1, 16], new Int32Array(16))];
  await assert.rejects(client.model("simple").infer({ inputs }), (error) => {
    assert.ok(error instanceof ClientError);
    assert.deepEqual([error.kind, error.status, error.isRetryable], ["server", 400, false]);
    assert.match(error.message, /expected 2 inputs but got 1 inputs for model 'simple'/);
    return true;
  });
  await assert.rejects(client.model("nope").generate({}), { kind: "server", message: /unknown model/ });
});

test("repository.load() and unload() change what the index says", async () => {
  const stateOf = async (): Promise<string | undefined> =>
    (await client.repository.index()).find(({ name }) => name === "text_encoder")?.state;
  assert.notEqual(await stateOf(), "READY");
  await client.repository.load("text_encoder");
  assert.equal(await stateOf(), "READY");
  await client.repository.unload("text_encoder");
  assert.notEqual(await stateOf(), "READY");
});
