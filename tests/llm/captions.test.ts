/** Images through the vision encoder into the language model as rows of a prompt embedding table: every caption, both protocols. */
import assert from "node:assert/strict";
import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { numberToFp16 } from "../../server/src/core/fp16.ts";
import {
  decode,
  encode,
  openSession,
  rawCall,
  STREAM_INFER,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { createPipeline } from "../support/llm-pipeline.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** The example clients are plain JavaScript. */
interface ExampleClients {
  decodePng(bytes: Buffer): { readonly channels: number; readonly data: Uint8Array };
  tensor(name: string, datatype: string, shape: readonly number[], values: ArrayBufferView): Wire;
  textTensor(name: string, texts: readonly string[], shape: readonly number[]): Wire;
  infer(url: string, model: string, inputs: readonly Wire[]): Promise<Map<string, Output>>;
}

interface Output {
  readonly shape: readonly number[];
  readonly values: Float32Array | Int32Array;
}

const clients = (name: string): string => new URL(`../../examples/clients/${name}`, import.meta.url).href;
const { decodePng, infer, tensor, textTensor }: ExampleClients = {
  ...(await import(clients("png.mjs"))),
  ...(await import(clients("v2-http.mjs"))),
};

const EXAMPLE = fileURLToPath(new URL("../../examples/nereid-tiny/", import.meta.url));
const SIDE = 64;
const VOCABULARY = 6144;
const END_ID = 2;
const scenes = JSON.parse(readFileSync(`${EXAMPLE}golden_captions.json`, "utf8")) as {
  readonly index: number;
  readonly generated: string;
}[];

interface Wire {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Buffer;
}

function pixelsOf(index: number): Float32Array {
  const { channels, data } = decodePng(readFileSync(`${EXAMPLE}images/scene_${String(index).padStart(2, "0")}.png`));
  const area = SIDE * SIDE;
  return Float32Array.from(
    { length: 3 * area },
    (_, at) => (data[(at % area) * channels + Math.floor(at / area)] ?? 0) / 255,
  );
}

function outputOf(outputs: ReadonlyMap<string, Output>, name: string): Output {
  return outputs.get(name) ?? assert.fail(`no output ${name}`);
}

async function idsOf(server: ServerProcess, text: string): Promise<number[]> {
  const outputs = await infer(server.baseUrl, "preprocessing", [
    textTensor("QUERY", [text], [1, 1]),
    tensor("REQUEST_OUTPUT_LEN", "INT32", [1, 1], Int32Array.of(1)),
  ]);
  return [...outputOf(outputs, "INPUT_ID").values];
}

/** The inputs of the engine for each image: the rows take the ids behind the vocabulary. */
async function captionRequests(server: ServerProcess): Promise<Wire[][]> {
  const pixels = Float32Array.from(scenes.flatMap(({ index }) => [...pixelsOf(index)]));
  const encoded = await infer(server.baseUrl, "vision_encoder", [
    tensor("pixel_values", "FP32", [scenes.length, 3, SIDE, SIDE], pixels),
  ]);
  const { shape, values } = outputOf(encoded, "visual_tokens");
  const [, numRows = 0, width = 0] = shape;
  const before = await idsOf(server, "[INST]");
  const after = (await idsOf(server, "\nDescribe the image. [/INST]")).slice(1); // without the start token
  const virtual = Array.from({ length: numRows }, (_, row) => VOCABULARY + row);
  const ids = Int32Array.of(...before, ...virtual, ...after);
  return scenes.map((_, image) => {
    const rows = values.subarray(image * numRows * width, (image + 1) * numRows * width);
    const scalar = (name: string, value: number): Wire => tensor(name, "INT32", [1, 1], Int32Array.of(value));
    return [
      tensor("input_ids", "INT32", [1, ids.length], ids),
      scalar("input_lengths", ids.length),
      scalar("request_output_len", 40),
      scalar("end_id", END_ID),
      scalar("prompt_vocab_size", numRows),
      tensor("prompt_embedding_table", "FP16", [1, numRows, width], Uint16Array.from(rows, numberToFp16)),
    ];
  });
}

async function textOf(server: ServerProcess, ids: Int32Array): Promise<string> {
  const url = `${server.baseUrl}/v2/models/postprocessing/infer`;
  const inputs = [
    { name: "TOKENS_BATCH", datatype: "INT32", shape: [1, 1, ids.length], data: [...ids] },
    { name: "SEQUENCE_LENGTH", datatype: "INT32", shape: [1, 1], data: [ids.length] },
  ];
  const reply = await fetch(url, { method: "POST", body: JSON.stringify({ inputs, outputs: [{ name: "OUTPUT" }] }) });
  const { outputs } = (await reply.json()) as { outputs: { data: string[] }[] };
  return outputs[0]?.data[0] ?? "";
}

async function overHttp(server: ServerProcess, inputs: readonly Wire[]): Promise<Int32Array> {
  const outputs = await infer(server.baseUrl, "tensorrt_llm", inputs);
  return Int32Array.from(outputOf(outputs, "output_ids").values);
}

async function overGrpc(server: ServerProcess, inputs: readonly Wire[]): Promise<Int32Array> {
  const session = openSession(server.grpc);
  const message = encode("inference.ModelInferRequest", {
    model_name: "tensorrt_llm",
    inputs: inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape })),
    outputs: [{ name: "output_ids" }],
    raw_input_contents: inputs.map(({ data }) => data),
  });
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  const { body } = await rawCall(session, { ":path": STREAM_INFER }, Buffer.concat([prefix, message]));
  session.destroy();
  const reply = decode("inference.ModelStreamInferResponse", body.subarray(5, 5 + body.readUInt32BE(1)));
  assert.equal(reply.error_message, "");
  const raw: Uint8Array = reply.infer_response.raw_output_contents[0];
  return new Int32Array(Uint8Array.from(raw).buffer);
}

for (const [way, decoupled, ask] of [
  ["HTTP infer", "False", overHttp],
  ["a gRPC stream", "True", overGrpc],
] as const) {
  test(`images get the captions that the model was recorded with, over ${way}`, { timeout: 600_000 }, async () => {
    await using repository = await createPipeline({
      tensorrt_llm: `decoupled_mode:${decoupled},exclude_input_in_output:True`,
    });
    symlinkSync(join(EXAMPLES, "vision_encoder"), join(repository.path, "vision_encoder"));
    const server = await startServerProcess({ repositories: [repository.path] });
    try {
      const requests = await captionRequests(server);
      const captions = await Promise.all(requests.map(async (inputs) => textOf(server, await ask(server, inputs))));
      assert.deepEqual(
        captions.map((text) => text.trim()),
        scenes.map(({ generated }) => generated),
      );
      await server.stop();
    } finally {
      await server.kill();
    }
  });
}
