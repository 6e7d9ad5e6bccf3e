/** Limits of images and of retrieval. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ImageInstance } from "../../images/src/image-instance.ts";
import type { ImageProcess } from "../../images/src/image-process.ts";
import { readImageSettings } from "../../images/src/image-settings.ts";
import { expectDecodable, readImageSource } from "../../images/src/image-source.ts";
import { PixelBudget } from "../../images/src/pixel-budget.ts";
import { processJob } from "../../images/src/process-job.ts";
import { readRetrievalQuery } from "../../retrieval/src/backend/retrieval-query.ts";
import type { RetrievalSettings } from "../../retrieval/src/backend/retrieval-settings.ts";
import { parseFilter } from "../../retrieval/src/stores/filter.ts";
import type { BackendRequest } from "../../server/src/backend/backend.ts";
import { renderPrompt } from "../../server/src/backend/tokenizer/image-prompt.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";
import { readImage } from "../../server/src/protocol/openai/chat/image-source.ts";
import { fakeRequest, int32 } from "../fakes/requests.ts";
import { bytesTensor, fakeSource, floatTensor } from "../fakes/run-instance.ts";
import type { LimitRow } from "./limit-row.ts";

const PARAMETERS = {
  size: '{"height": 8, "width": 8}',
  image_urls: "any",
};
const CONFIG = `name: "images" backend: "image"
  input [ { name: "IMAGE" data_type: TYPE_STRING dims: [ -1 ] } ]
  output [ { name: "pixel_values" data_type: TYPE_FP32 dims: [ -1, 3, -1, -1 ] } ]
  ${Object.entries(PARAMETERS)
    .map(([key, value]) => `parameters { key: "${key}" value { string_value: ${JSON.stringify(value)} } }`)
    .join("\n")}`;
const SETTINGS = readImageSettings(fakeSource(CONFIG, "/"));

/** A file of so many bytes that claims to be so wide, and one pixel high. */
function png(numBytes: number, width = 1): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(numBytes);
  bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52]);
  const view = new DataView(bytes.buffer);
  view.setUint32(16, width);
  view.setUint32(20, 1);
  return bytes;
}

/** The outcome of one request of an instance whose process answers with so many bytes. */
function imagesOf(input: Tensor, numBytes: number, instance = instanceOf(numBytes)): Promise<void> {
  return new Promise((resolve, reject) => {
    const request: BackendRequest = {
      request: fakeRequest([input]),
      batchSize: 1,
      outputNames: [],
      respond: () => resolve(),
      fail: reject,
      drained: () => Promise.resolve(),
    };
    const ignore = (): void => undefined;
    instance.execute({ requests: [request], batchSize: 1, computeStarted: ignore, computeEnded: ignore }).catch(reject);
  });
}

function instanceOf(numBytes: number): ImageInstance {
  const result = { shape: [3, 8, 8], sizes: [], grids: [], order: new Int32Array(0), lengths: [] };
  const process = {
    process: async () => ({ ...result, data: new Uint8Array(numBytes) }),
    close: async () => undefined,
  };
  return new ImageInstance("images_0", SETTINGS, process as unknown as ImageProcess);
}

/** So many requests whose image never arrives, except that the last is refused or not. */
async function fetchImages(count: number): Promise<void> {
  const server = createServer(() => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const instance = instanceOf(0);
  const outcomes = Array.from({ length: count }, () => imagesOf(bytesTensor("IMAGE", [1], [url]), 0, instance));
  for (const outcome of outcomes) outcome.catch(() => undefined);
  const last = outcomes.at(-1);
  const turn = new Promise<void>((resolve) => setTimeout(resolve, 0));
  try {
    await Promise.race([last, turn]);
  } finally {
    server.closeAllConnections();
    server.close();
    await instance.close();
  }
}

/** Patches of one pixel: an image that is so wide has as many. */
function patchesOf(count: number): Promise<unknown> {
  const table = new Float32Array(256);
  const processing = {
    resize: undefined,
    crop: undefined,
    pad: undefined,
    values: [table, table, table] as const,
    isBgr: false,
    layout: "channels_first" as const,
    patches: { patchSize: 1, mergeSize: 1, temporalSize: 1 },
    tiles: undefined,
  };
  const decode = async () => ({ width: count, height: 1, channels: 3 as const, data: new Uint8Array(3 * count) });
  const { maxPixels, maxPatches } = SETTINGS;
  const job = { processing, pixelType: "FP32" as const, maxPixels, maxPatches };
  return processJob(job, { decode, budget: new PixelBudget(maxPixels) }, [png(24, count)]);
}

const RETRIEVAL = { embedding: "E", filter: [], k: 5, metric: "cosine" } as unknown as RetrievalSettings;

function retrieve(count: number, more: readonly Tensor[] = []): void {
  readRetrievalQuery(fakeRequest([floatTensor("E", [count, 1], new Float32Array(count)), ...more]), RETRIEVAL);
}

function fields(count: number): string {
  return JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, i])));
}

const MARKED = {
  template: "{images}{text}",
  place: "<i>",
  framedPlace: "<i>",
  vocabularySize: 10,
  addSpecialTokens: false,
};
const URL_START = "http://host/";

const row = (name: string, value: number, run: (count: number) => unknown): LimitRow => ({
  name,
  value,
  run,
  status: "invalid_argument",
  says: "both",
});

export const IMAGE_ROWS: readonly LimitRow[] = [
  row("MAX_IMAGES", 128, (count) => imagesOf(bytesTensor("IMAGE", [count], new Array(count).fill(png(24))), 0)),
  row("MAX_IMAGE_PLACES", 1024, (count) => renderPrompt(MARKED, "x", count)),
  row("MAX_IMAGE_BYTES", 33_554_432, (count) => expectDecodable(png(count), 1)),
  row("MAX_IMAGE_SOURCE_BYTES", 50_331_648, (count) => readImageSource(png(count))),
  row("MAX_IMAGE_URL_CHARS", 2048, (count) => readImageSource(Buffer.from(URL_START.padEnd(count, "a")))),
  {
    ...row("MAX_IMAGE_URL_CHARS", 2048, (count) => readImage(URL_START.padEnd(count, "a"), "messages[0]")),
    status: "400",
  },
  { ...row("MAX_IMAGE_FETCHES", 64, fetchImages), status: "unavailable", says: "limit" },
  row("DEFAULT_MAX_IMAGE_PIXELS", 33_554_432, (count) => expectDecodable(png(24, count), SETTINGS.maxPixels)),
  row("MAX_PIXEL_VALUES_BYTES", 536_870_912, (count) => imagesOf(bytesTensor("IMAGE", [1], [png(24)]), count)),
  row("DEFAULT_MAX_PATCHES", 16_384, patchesOf),
  row("MAX_RETRIEVAL_VECTORS", 1024, retrieve),
  row("MAX_RETRIEVAL_HITS", 1000, (count) => retrieve(1, [int32("k", [1], [count])])),
  row("MAX_RETRIEVAL_FILTER_CHARS", 16_384, (count) =>
    retrieve(1, [bytesTensor("filter", [1], ['{"a": 1}'.padEnd(count, " ")])]),
  ),
  row("MAX_FILTER_CONDITIONS", 32, (count) => parseFilter(fields(count), "input 'filter'")),
  row("MAX_FILTER_CHOICES", 1000, (count) =>
    parseFilter(JSON.stringify({ a: { $in: new Array(count).fill(1) } }), "input 'filter'"),
  ),
  row("MAX_FILTER_FIELD_CHARS", 128, (count) =>
    parseFilter(JSON.stringify({ ["a".repeat(count)]: 1 }), "input 'filter'"),
  ),
];
