import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { openSafetensors } from "./safetensors.ts";

/** A file with one-byte tensors: name to bytes. */
function fileOf(tensors: Readonly<Record<string, readonly number[]>>): Uint8Array {
  let end = 0;
  const entries = Object.entries(tensors).map(([name, bytes]) => {
    const begin = end;
    end += bytes.length;
    return [name, { dtype: "U8", shape: [bytes.length], data_offsets: [begin, end] }];
  });
  const header = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)));
  const prefix = new Uint8Array(8);
  new DataView(prefix.buffer).setBigUint64(0, BigInt(header.byteLength), true);
  return Uint8Array.of(...prefix, ...header, ...Object.values(tensors).flat());
}

async function withFolder(
  files: Readonly<Record<string, string | Uint8Array>>,
  use: (directory: string) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "safetensors-"));
  try {
    for (const [name, content] of Object.entries(files)) await writeFile(join(directory, name), content);
    await use(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

const INDEX = "model.safetensors.index.json";
const indexOf = (map: unknown): string => JSON.stringify({ weight_map: map });

test("openSafetensors() reads ranges of a single file", async () => {
  await withFolder({ "model.safetensors": fileOf({ a: [1, 2, 3], b: [4, 5] }) }, async (directory) => {
    const model = await openSafetensors(directory);
    const bytes = new Uint8Array(2);
    await model.read("a", bytes, 1);
    assert.deepEqual(bytes, Uint8Array.of(2, 3));
    await assert.rejects(model.read("a", bytes, 2), /bytes 2 to 4 lie outside "a"/);
    await assert.rejects(model.read("a", bytes, -1), /outside/);
    await assert.rejects(model.read("c", bytes), /no tensor "c"/);
    await model.close();
  });
});

test("openSafetensors() finds tensors in the shards that the index names", async () => {
  const files = {
    [INDEX]: indexOf({ a: "x.safetensors", b: "y.safetensors" }),
    "x.safetensors": fileOf({ a: [1], b: [9] }),
    "y.safetensors": fileOf({ b: [2] }),
  };
  await withFolder(files, async (directory) => {
    const model = await openSafetensors(directory);
    const byte = new Uint8Array(1);
    await model.read("b", byte);
    assert.deepEqual([...model.tensors.keys()].sort(), ["a", "b"]);
    assert.equal(byte[0], 2);
    await model.close();
  });
});

const REFUSED: readonly (readonly [what: string, files: Record<string, string | Uint8Array>, expected: RegExp])[] = [
  ["a folder without weights", {}, /model\.safetensors: expected a safetensors file/],
  ["an empty file", { "model.safetensors": "" }, /expected a safetensors file, got 0 bytes/],
  ["an index that is no JSON", { [INDEX]: "{" }, /index\.json: expected JSON/],
  ["an index without a map", { [INDEX]: "{}" }, /weight_map: expected an object/],
  ["an index that is null", { [INDEX]: "null" }, /weight_map: expected an object/],
  ["a path that leaves the folder", { [INDEX]: indexOf({ a: "../x.safetensors" }) }, /beside the index for "a"/],
  ["a file of another kind", { [INDEX]: indexOf({ a: "x.bin" }) }, /beside the index for "a"/],
  [
    "a shard without its tensor",
    { [INDEX]: indexOf({ a: "x.safetensors" }), "x.safetensors": fileOf({ b: [1] }) },
    /x\.safetensors: expected tensor "a"/,
  ],
  [
    "a shard that is missing",
    { [INDEX]: indexOf({ a: "x.safetensors" }) },
    /x\.safetensors: expected a safetensors file/,
  ],
];

for (const [what, files, expected] of REFUSED) {
  test(`openSafetensors() refuses ${what}`, async () => {
    await withFolder(files, async (directory) => {
      await assert.rejects(openSafetensors(directory), expected);
    });
  });
}

test("openSafetensors() opens the two shards of nereid-tiny", async () => {
  const model = await openSafetensors(
    fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model/", import.meta.url)),
  );
  assert.equal(model.tensors.size, 56);
  assert.deepEqual(model.tensors.get("model.embed_tokens.weight")?.shape, [6144, 384]);
  await model.close();
});
