import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { deflateSync } from "node:zlib";
import { fp16ToNumber } from "@nereid/server/core/fp16";
import { bytesTensor, floatsOf, type LoadedInstance, loadInstance } from "../../tests/fakes/run-instance.ts";
import { createBackend } from "./image-backend.ts";

const IMAGES = new URL("../../tests/vision/images/", import.meta.url);
const WIDE = readFileSync(new URL("wide.png", IMAGES));
const SQUARE = readFileSync(new URL("square.webp", IMAGES));
const FOLDER = mkdtempSync(join(tmpdir(), "nereid-image-"));
after(() => rmSync(FOLDER, { recursive: true }));

interface Form {
  readonly batch?: number;
  readonly inputDims?: string;
  readonly outputDims?: string;
  readonly type?: string;
  readonly more?: string;
  readonly parameters?: Readonly<Record<string, string>>;
}

/** Images of 8 x 8 unless `parameters` say otherwise. */
function configOf({
  batch = 0,
  inputDims = "-1",
  outputDims = "-1, 3, -1, -1",
  type = "FP32",
  more = "",
  parameters = {},
}: Form): string {
  const all = { size: '{"height": 8, "width": 8}', ...parameters };
  const lines = Object.entries(all).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: ${JSON.stringify(value)} } }`,
  );
  return `name: "images" backend: "image" max_batch_size: ${batch}
    input [ { name: "IMAGE" data_type: TYPE_STRING dims: [ ${inputDims} ] } ]
    output [ { name: "pixel_values" data_type: TYPE_${type} dims: [ ${outputDims} ] } ${more} ]
    ${lines.join("\n")}`;
}

const load = (form: Form = {}): Promise<LoadedInstance> => loadInstance(createBackend(), configOf(form), FOLDER);
const image = (elements: readonly (Uint8Array | string)[], shape: readonly number[] = [elements.length]) => [
  bytesTensor("IMAGE", shape, elements),
];

test("the backend `image` takes a file, its base64 and a data URL for the same image", async () => {
  await using loaded = await load();
  const base64 = WIDE.toString("base64");
  const outputs = await loaded.run(
    image([WIDE, base64, `data:image/png;base64,${base64}`, WIDE.toString("base64url")]),
  );
  const pixels = outputs.get("pixel_values");
  assert.deepEqual(pixels?.shape, [4, 3, 8, 8]);
  const values = floatsOf(pixels);
  const each = values.length / 4;
  for (const index of [1, 2, 3])
    assert.deepEqual(values.slice(index * each, (index + 1) * each), values.slice(0, each));
  assert.ok(new Set(values).size > 50);
});

test("the backend `image` gives one image a row without a dimension of its own", async () => {
  await using loaded = await load({ batch: 8, inputDims: "1", outputDims: "3, 8, 8", type: "FP16" });
  const pixels = (await loaded.run(image([WIDE, SQUARE], [2, 1]))).get("pixel_values");
  assert.deepEqual([pixels?.shape, pixels?.datatype, pixels?.data.length], [[2, 3, 8, 8], "FP16", 2 * 3 * 64 * 2]);
  await using single = await load();
  const alone = floatsOf((await single.run(image([WIDE]))).get("pixel_values"));
  const halves = new Uint16Array(Uint8Array.from(pixels?.data ?? []).buffer);
  assert.ok(Math.abs(fp16ToNumber(halves[5] ?? 0) - (alone[5] ?? 0)) < 1e-3);
});

test("the backend `image` tells the sizes of images and the grids of patches where the configuration has them", async () => {
  const more = `, { name: "image_sizes" data_type: TYPE_INT32 dims: [ -1, 2 ] }, { name: "image_grid_thw" data_type: TYPE_INT64 dims: [ -1, 3 ] }`;
  const parameters = {
    image_processor_type: "Qwen2VLImageProcessor",
    size: "",
    patch_size: "4",
    min_pixels: "256",
    max_pixels: "2048",
  };
  await using loaded = await load({ outputDims: "-1, -1", more, parameters });
  const outputs = await loaded.run(image([WIDE, SQUARE]));
  const grids = [...new BigInt64Array(Uint8Array.from(outputs.get("image_grid_thw")?.data ?? []).buffer)].map(Number);
  const [, rows = 0, columns = 0, , otherRows = 0, otherColumns = 0] = grids;
  assert.deepEqual(outputs.get("image_grid_thw")?.shape, [2, 3]);
  assert.deepEqual(outputs.get("pixel_values")?.shape, [rows * columns + otherRows * otherColumns, 3 * 2 * 16]);
  assert.deepEqual(
    [...new Int32Array(Uint8Array.from(outputs.get("image_sizes")?.data ?? []).buffer)],
    [61, 97, 64, 64],
  );
});

test("`load()` reads the description beside the model, and parameters have the last word", async () => {
  const description = { do_resize: true, size: { height: 4, width: 6 }, do_rescale: false, resample: 0 };
  writeFileSync(join(FOLDER, "preprocessor_config.json"), JSON.stringify(description));
  after(() => undefined);
  await using loaded = await load({ parameters: { size: "", resample: "2" } });
  rmSync(join(FOLDER, "preprocessor_config.json"));
  const pixels = (await loaded.run(image([WIDE]))).get("pixel_values");
  assert.deepEqual(pixels?.shape, [1, 3, 4, 6]);
  assert.ok(floatsOf(pixels).some((value) => value > 1));
});

/** A PNG that claims a size; its pixels are missing. */
function pngOf(width: number, height: number): Uint8Array {
  const chunk = (type: string, data: Uint8Array): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(data.length);
    return Buffer.concat([length, Buffer.from(type), data, Buffer.alloc(4)]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([
    signature,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(Buffer.alloc(8))),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>';
const REFUSED: readonly (readonly [what: string, element: Uint8Array | string, message: RegExp])[] = [
  ["nothing", "", /image 0 is empty/],
  [
    "a text",
    "hello, image!",
    /image 0 is neither PNG, JPEG nor WebP, nor one as base64: it begins with the bytes 68656c6c/,
  ],
  ["another format", svg, /neither PNG, JPEG nor WebP/],
  ["another format as base64", Buffer.from(svg).toString("base64"), /neither PNG, JPEG nor WebP/],
  ["a GIF", Buffer.from("GIF89a\u0001\u0000\u0001\u0000", "latin1"), /neither PNG, JPEG nor WebP/],
  ["a data URL of text", "data:text/plain,hello", /is a data URL without ';base64,'/],
  ["a header without an image", WIDE.subarray(0, 20), /image 0 is broken: it begins like PNG, and has no size/],
  ["half an image", WIDE.subarray(0, WIDE.length / 2), /image 0 is broken: it can not be decoded/],
  ["a bomb", pngOf(65_535, 65_535), /has 65535 x 65535 pixels, expected at most 33554432/],
  ["a size of nothing", pngOf(0, 5), /is broken: it begins like PNG, and has no size/],
  ["an address", "http://127.0.0.1:9/x.png", /is an address: this model fetches none \(parameter 'image_urls'\)/],
];
for (const [what, element, message] of REFUSED) {
  test(`the backend \`image\` refuses ${what} and goes on`, async () => {
    await using loaded = await load();
    await assert.rejects(loaded.run(image([element])), (error: Error) => {
      assert.match(error.message, message);
      assert.match(error.message, /^input 'IMAGE': image 0 /);
      assert.doesNotMatch(error.message, /vips|sharp|buffer/i);
      return true;
    });
    assert.equal((await loaded.run(image([WIDE]))).size, 1);
  });
}

test("the backend `image` refuses 129 images, none, and images of one request that become different sizes", async () => {
  await using loaded = await load();
  await assert.rejects(loaded.run(image(Array.from({ length: 129 }, () => "x"))), /has 129 images, expected 1 to 128/);
  await assert.rejects(loaded.run(image([])), /has 0 images/);
  await using free = await load({ parameters: { size: '{"shortest_edge": 8}' } });
  await assert.rejects(free.run(image([WIDE, SQUARE])), /image 0 is \[3, 8, 12\], image 1 is \[3, 8, 8\]/);
});

const QWEN = { image_processor_type: "Qwen2VLImageProcessor", patch_size: "4", min_pixels: "64", max_pixels: "4096" };
const NEXT = {
  image_processor_type: "LlavaNextImageProcessor",
  size: '{"shortest_edge": 8}',
  crop_size: "8",
  patch_size: "4",
  image_grid_pinpoints: "[[8, 16], [16, 8]]",
};

const LENGTHS = `, { name: "visual_lengths" data_type: TYPE_INT64 dims: [ -1 ] }`;

for (const { name, parameters, outputDims, lengths, patches } of [
  { name: "patches of Qwen2-VL", parameters: QWEN, outputDims: "-1, -1", lengths: [60, 64], patches: 496 },
  { name: "tiles of LLaVA-NeXT", parameters: NEXT, outputDims: "-1, 3, 8, 8", lengths: [14, 10], patches: 24 },
]) {
  test(`the backend \`image\` bounds the ${name} of a request, counted over its images`, async () => {
    const form = (most: number): Form => ({
      ...{ outputDims, more: LENGTHS },
      parameters: { ...parameters, max_patches_per_request: String(most) },
    });
    await using enough = await load(form(patches));
    const found = (await enough.run(image([WIDE, SQUARE]))).get("visual_lengths");
    assert.deepEqual([...new BigInt64Array(Uint8Array.from(found?.data ?? []).buffer)].map(Number), lengths);
    await using few = await load(form(patches - 1));
    await assert.rejects(few.run(image([WIDE, SQUARE])), {
      code: "invalid_argument",
      message: new RegExp(`become ${patches} patches or more, expected at most ${patches - 1} `),
    });
    assert.equal((await few.run(image([WIDE]))).size, 2);
  });
}

const BAD_CONFIGURATIONS: readonly (readonly [Form, RegExp])[] = [
  [{ parameters: { size: '{"height": 8}' } }, /'size' must be height and width, shortest_edge/],
  [{ parameters: { size: '{"height": 8, "width": -1}' } }, /must be a whole number above 0/],
  [{ parameters: { resample: "9" } }, /'resample' must be a whole number from 0 to 5, got 9/],
  [{ parameters: { image_mean: "[1, 2]" } }, /'image_mean' must be three numbers/],
  [{ parameters: { image_mean: "0.5", image_std: "[1, 0, 1]" } }, /'image_std' must be three numbers other than 0/],
  [{ parameters: { do_resize: "yes" } }, /'do_resize' must be true or false, got "yes"/],
  [{ parameters: { do_image_splitting: "true" } }, /'do_image_splitting' is not supported/],
  [{ parameters: { image_urls: "all" } }, /parameter 'image_urls' is 'all', expected off, public or any/],
  [{ parameters: { picture_urls: "all" } }, /parameter 'picture_urls' is 'all', expected off, public or any/],
  [{ parameters: { max_pixels_per_image: "0" } }, /parameter 'max_pixels_per_image' is '0', expected a whole number/],
  [{ parameters: { max_pixels_per_picture: "0" } }, /parameter 'max_pixels_per_picture' is '0', expected a whole/],
  [{ parameters: { processor: "elsewhere" } }, /parameter 'processor' is 'elsewhere', and there is no/],
  [{ type: "INT8" }, /expects an output of TYPE_FP32 or TYPE_FP16/],
  [{ batch: 4, parameters: QWEN }, /one list of tiles or patches: max_batch_size must be 0/],
  [{ parameters: { ...NEXT, image_grid_pinpoints: "[]" } }, /'image_grid_pinpoints' must be 1 to 256 pairs of height/],
  [{ parameters: { ...NEXT, image_grid_pinpoints: "[[8, 12]]" } }, /multiples of the tile's 8 of at most 16, got/],
  [
    { parameters: { ...NEXT, image_processor_type: "LlavaOnevisionImageProcessor" } },
    /supported for LlavaNextImageProcessor, not for 'LlavaOnevisionImageProcessor'/,
  ],
];
for (const [form, message] of BAD_CONFIGURATIONS) {
  test(`\`load()\` refuses ${JSON.stringify(form)}`, async () => {
    await assert.rejects(async () => (await load(form))[Symbol.asyncDispose](), message);
  });
}

async function withServer(listener: RequestListener, work: (origin: string) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

test("the backend `image` fetches addresses where allowed, follows no redirects, and says what went wrong with others", async () => {
  const listener: RequestListener = (request, response) => {
    const answers: Record<string, () => void> = {
      "/a.png": () => response.end(WIDE),
      "/moved": () => response.writeHead(302, { location: "/a.png" }).end(),
      "/large": () => response.writeHead(200, { "content-length": 2 ** 40 }).end(),
      "/text": () => response.end("hello"),
      "/slow": () => undefined,
    };
    (answers[request.url ?? ""] ?? (() => response.writeHead(404).end()))();
  };
  await withServer(listener, async (origin) => {
    await using loaded = await load({ parameters: { image_urls: "any", image_url_timeout_ms: "400" } });
    const direct = await loaded.run(image([`${origin}/a.png`]));
    const same = await loaded.run(image([WIDE]));
    assert.deepEqual(direct.get("pixel_values"), same.get("pixel_values"));
    for (const [path, message] of [
      ["/moved", /image 0 is redirected \(status 302\), which is not followed/],
      ["/large", /has more than 33554432 bytes/],
      ["/text", /neither PNG, JPEG nor WebP/],
      ["/none", /could not be fetched: status 404/],
      ["/slow", /did not arrive within 400 ms/],
    ] as const) {
      await assert.rejects(loaded.run(image([`${origin}${path}`])), message, path);
    }
    await assert.rejects(loaded.run(image(["http://user:pass@127.0.0.1/"])), /with a user name/);
  });
});

test("the backend `image` goes to no address of this machine and its networks when only public ones are allowed", async () => {
  let asked = 0;
  const count: RequestListener = (_, response) => {
    asked += 1;
    response.end(WIDE);
  };
  await withServer(count, async (origin) => {
    const { port } = new URL(origin);
    await using loaded = await load({ parameters: { image_urls: "public" } });
    const hosts = [
      "127.0.0.1",
      "localhost",
      "0x7f.1",
      "2130706433",
      "[::1]",
      "[::ffff:127.0.0.1]",
      "0.0.0.0",
      "169.254.169.254",
    ];
    for (const host of hosts) {
      const message = /has an address that is not of the public internet/;
      await assert.rejects(loaded.run(image([`http://${host}:${port}/`])), message, host);
    }
  });
  assert.equal(asked, 0);
});

test("a request that leaves while its image is fetched ends as cancelled", async () => {
  await withServer(
    () => undefined,
    async (origin) => {
      await using loaded = await load({ parameters: { image_urls: "any" } });
      const leaving = new AbortController();
      const outcome = loaded.run(image([origin]), { signal: leaving.signal });
      setImmediate(() => leaving.abort());
      await assert.rejects(outcome, { code: "cancelled" });
    },
  );
});

for (const { urls, hosts } of [
  { urls: "image_urls", hosts: "image_url_hosts" },
  { urls: "picture_urls", hosts: "picture_url_hosts" },
]) {
  test(`the backend \`image\` fetches from the hosts that ${urls} and ${hosts} allow, and from no others`, async () => {
    const listener: RequestListener = (_, response) => response.end(WIDE);
    await withServer(listener, async (origin) => {
      await using loaded = await load({ parameters: { [urls]: "any", [hosts]: "127.0.0.1" } });
      assert.ok((await loaded.run(image([`${origin}/a.png`]))).has("pixel_values"));
      const elsewhere = image([origin.replace("127.0.0.1", "localhost")]);
      await assert.rejects(loaded.run(elsewhere), /has an address at a host that is not allowed/);
    });
  });
}
