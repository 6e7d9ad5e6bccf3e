/** The example's images as files through the whole pipeline: image backend, encoder, language model, look-up; all from one request. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  decode,
  encode,
  openSession,
  rawCall,
  STREAM_INFER,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { testSize } from "../support/long-tests.ts";
import type { ServerProcess } from "../support/server-process.ts";
import {
  createVisionRepository,
  EXAMPLE_FOLDER,
  generate,
  indexCaptions,
  makeCaptions,
  mapSome,
  readScenes,
  renderScenes,
  startVisionServer,
  type VisionRepository,
} from "../support/vision-server.ts";

const NUM_CAPTIONS = 10_000;
const NUM_IMAGES = testSize(12, 40);
const QUESTION = "Describe the image.";
const scenes = JSON.parse(readFileSync(`${EXAMPLE_FOLDER}nereid-tiny/golden_captions.json`, "utf8")) as {
  readonly index: number;
  readonly caption: string;
  readonly generated: string;
}[];
/** Each fourth in `npm test`; captions.test.ts has them all. */
const shown = scenes.filter((_, i) => i % testSize(4, 1) === 0);
const imageOf = (index: number): Buffer =>
  readFileSync(`${EXAMPLE_FOLDER}nereid-tiny/images/scene_${String(index).padStart(2, "0")}.png`);
const base64Of = (index: number): string => imageOf(index).toString("base64");

let repository: VisionRepository;
let server: ServerProcess;

before(async () => {
  repository = createVisionRepository("memory:../../store");
  const captions = join(repository.folder, "captions.jsonl");
  await makeCaptions(captions, NUM_CAPTIONS);
  const store = `memory:${join(repository.folder, "store")}`;
  const first = await indexCaptions(repository, captions, store);
  assert.deepEqual([first.written, first.unchanged, first.dimensions], [NUM_CAPTIONS, 0, 128]);
  await renderScenes(join(repository.folder, "pictures"), NUM_IMAGES);
  server = await startVisionServer(repository, [
    "--trace-config=mode=triton",
    `--trace-config=triton,file=${repository.folder}/trace`,
    "--trace-config=rate=1",
    "--trace-config=level=TIMESTAMPS",
  ]);
});

after(async () => {
  await server?.kill();
  repository[Symbol.dispose]();
});

test("images get their captions over /generate, starting from the files", async () => {
  const answers = await mapSome(shown, 8, async ({ index }) => {
    const body = { image: base64Of(index), text_input: QUESTION, max_tokens: 40 };
    return String((await generate(server, "vlm", body)).text_output).trim();
  });
  assert.deepEqual(
    answers,
    shown.map(({ generated }) => generated),
  );
});

test("images get their captions over gRPC, as files in BYTES tensors", async () => {
  const session = openSession(server.grpc);
  const texts = await mapSome(shown, 8, async ({ index }) => {
    const sized = (bytes: Uint8Array): Buffer => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.length);
      return Buffer.concat([length, bytes]);
    };
    const message = encode("inference.ModelInferRequest", {
      model_name: "vlm",
      inputs: [
        { name: "image", datatype: "BYTES", shape: [1] },
        { name: "text_input", datatype: "BYTES", shape: [1] },
        { name: "max_tokens", datatype: "INT32", shape: [1] },
      ],
      raw_input_contents: [sized(imageOf(index)), sized(Buffer.from(QUESTION)), Buffer.from(Int32Array.of(40).buffer)],
    });
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(message.length, 1);
    const { body } = await rawCall(session, { ":path": STREAM_INFER }, Buffer.concat([prefix, message]));
    const reply = decode("inference.ModelStreamInferResponse", body.subarray(5, 5 + body.readUInt32BE(1)));
    assert.equal(reply.error_message, "");
    const raw: Uint8Array = reply.infer_response.raw_output_contents[0];
    return Buffer.from(raw.subarray(4)).toString().trim();
  });
  session.destroy();
  assert.deepEqual(
    texts,
    shown.map(({ generated }) => generated),
  );
});

test("an answer about an image is streamed token by token", async () => {
  const body = { image: base64Of(5), text_input: "What is the background color?", max_tokens: 40, stream: true };
  const reply = await fetch(`${server.baseUrl}/v2/models/vlm/generate_stream`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  const events = [...(await reply.text()).matchAll(/^data: (.*)$/gm)].map(([, json = "{}"]) => JSON.parse(json));
  assert.ok(events.length > 4);
  assert.equal(
    events
      .map(({ text_output }) => text_output)
      .join("")
      .trim(),
    "The background is brown.",
  );
});

test("a prompt may place several images, and each place shows its own", async () => {
  const ask = async (text: string, ...images: number[]): Promise<string> => {
    const body = { image: images.map(base64Of), text_input: text, max_tokens: 40 };
    return String((await generate(server, "vlm", body)).text_output).trim();
  };
  const alone = await ask("Describe the image.", 0);
  assert.equal(await ask("<image>\nDescribe the image.", 0), await ask("<image>\nDescribe the image.", 0));
  assert.notEqual(await ask("Describe the image.", 5), alone);
  assert.notEqual(
    await ask("<image> <image>\nDescribe the image.", 0, 5),
    await ask("<image> <image>\nDescribe the image.", 5, 0),
  );
  await assert.rejects(
    ask("<image> and <image>", 0),
    /400: in ensemble 'vlm', the prompt has 2 places '<image>' for 1 images/,
  );
});

test("an image that was seen before is found in the prefix cache, another one is not", async () => {
  const counts = async (): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text();
    const line = text
      .split("\n")
      .find((one) => one.includes('kv_cache_block_type="reused"') && one.includes('model="tensorrt_llm"'));
    return Number(line?.split(" ").at(-1) ?? Number.NaN);
  };
  const [seen, unseen] = readScenes(join(repository.folder, "pictures")).map(({ file }) => file);
  const ask = (file = ""): Promise<unknown> => {
    const image = readFileSync(join(repository.folder, "pictures", file)).toString("base64");
    return generate(server, "vlm", { image, text_input: QUESTION, max_tokens: 1 });
  };
  await ask(seen);
  const before = await counts();
  await ask(unseen);
  const other = await counts();
  await ask(seen);
  const same = await counts();
  assert.ok(
    same - other > other - before,
    `reused ${other - before} blocks for another image, ${same - other} for the same`,
  );
});

test("broken images, bombs and addresses fail their own request with the cause", async () => {
  for (const [image, message] of [
    ["bm90IGEgcGljdHVyZQ==", /input 'IMAGE': image 0 is neither PNG, JPEG nor WebP/],
    [imageOf(0).subarray(0, 60).toString("base64"), /image 0 is broken: it can not be decoded/],
    ["http://169.254.169.254/latest/meta-data", /is an address: this model fetches none/],
  ] as const) {
    await assert.rejects(generate(server, "vlm", { image, text_input: QUESTION, max_tokens: 5 }), message);
  }
});

test(`images drawn by the example find their caption first among ${NUM_CAPTIONS}, with answer and score in one response`, async () => {
  const folder = join(repository.folder, "pictures");
  const found = await mapSome(readScenes(folder), 8, async ({ file, text }) => {
    const image = readFileSync(join(folder, file)).toString("base64");
    const body = { image, text_input: "How many shapes are there?", max_tokens: 10 };
    const { text_output, matches, match_scores } = await generate(server, "vlm_search", body);
    assert.match(
      String(text_output),
      text.includes(" above ") || text.includes(" left of ") ? /two shapes/ : /one shape/,
    );
    const [best = "{}"] = matches as string[];
    const [score = 0] = match_scores as number[];
    return { isRight: JSON.parse(best).text === text, score };
  });
  assert.equal(found.length, NUM_IMAGES);
  assert.ok(found.filter(({ isRight }) => isRight).length >= 0.98 * NUM_IMAGES);
  assert.ok(found.every(({ score }) => score > 0.9 && score <= 1.0001));
});

test("a look-up can be narrowed down by a filter", async () => {
  const body = {
    image: base64Of(5),
    text_input: QUESTION,
    max_tokens: 5,
    filter: '{"shapes": 1, "background": "pink"}',
  };
  const { matches } = await generate(server, "vlm_search", body);
  for (const match of matches as string[]) {
    const { shapes, background } = JSON.parse(match);
    assert.deepEqual([shapes, background], [1, "pink"]);
  }
});

test("every step of a request shows in the statistics and in the trace", async () => {
  const { model_stats } = (await (await fetch(`${server.baseUrl}/v2/models/stats`)).json()) as {
    model_stats: { name: string; inference_stats: { success: { count: number; ns: number } } }[];
  };
  const steps = [
    "vlm_search",
    "image_preprocessing",
    "vision_encoder",
    "vlm_preprocessing",
    "vision_llm",
    "postprocessing",
    "caption_tokens",
    "text_encoder",
    "caption_search",
  ];
  for (const step of steps) {
    const stats = model_stats.find(({ name }) => name === step)?.inference_stats.success;
    assert.ok((stats?.count ?? 0) > 0 && (stats?.ns ?? 0) > 0, step);
  }
  await server.stop(); // which writes what is traced
  const files = readdirSync(repository.folder).filter((name) => name.startsWith("trace"));
  const traces = files.map((name) => readFileSync(join(repository.folder, name), "utf8")).join("\n");
  for (const step of steps) assert.match(traces, new RegExp(`"model_name":"${step}"`), step);
});
