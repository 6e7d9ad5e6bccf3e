import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { readNpy } from "./npy.ts";

const directory = await mkdtemp(join(tmpdir(), "npy-"));
after(() => rm(directory, { recursive: true }));

const header = (type: string, shape: string, order = "False"): string =>
  `{'descr': '${type}', 'fortran_order': ${order}, 'shape': (${shape}), }`;

async function file(text: string, data: Uint8Array, version = 1): Promise<string> {
  const lengthBytes = version === 1 ? 2 : 4;
  const start = Buffer.alloc(8 + lengthBytes);
  start.write("\u0093NUMPY", "latin1");
  start[6] = version;
  start.writeUIntLE(text.length, 8, lengthBytes);
  const path = join(await mkdtemp(join(directory, "file-")), "a.npy");
  await writeFile(path, Buffer.concat([start, Buffer.from(text, "latin1"), data]));
  return path;
}

const bytesOf = (values: ArrayBufferView): Uint8Array => new Uint8Array(values.buffer);

const READ: readonly (readonly [type: string, data: Uint8Array, values: readonly number[]])[] = [
  ["<f4", bytesOf(Float32Array.of(0.5, -2)), [0.5, -2]],
  ["<f2", bytesOf(Uint16Array.of(0x3800, 0xc000)), [0.5, -2]],
  ["|V2", bytesOf(Uint16Array.of(0x3f00, 0xc000)), [0.5, -2]],
  ["<i4", bytesOf(Int32Array.of(7, -1)), [7, -1]],
  ["<i8", bytesOf(BigInt64Array.of(7n, -1n)), [7, -1]],
];
for (const [type, data, values] of READ) {
  test(`readNpy() reads ${type}`, async () => {
    for (const version of [1, 2, 3]) {
      const array = await readNpy(await file(header(type, "1, 2"), data, version));
      assert.deepEqual({ shape: array.shape, values: [...array.values] }, { shape: [1, 2], values });
    }
  });
}

const NUMBERS = bytesOf(Float32Array.of(1, 2));
const REFUSED: readonly (readonly [name: string, text: string, expected: RegExp])[] = [
  ["another type", header("<f8", "2,"), /expected numbers of type <f4, <f2, .*, got <f8/],
  ["too many numbers", header("<f4", "3,"), /expected 12 bytes for <f4\[3\], got 8/],
  ["more than memory holds", header("<f4", "9007199254740991, 9007199254740991"), /expected .* bytes for <f4/],
  ["columns first", header("<f4", "1, 2", "True"), /fortran_order: expected False/],
  ["no shape", "{'descr': '<f4'}", /header: expected descr and shape/],
  ["sizes that are none", header("<f4", "1, 99999999999999999999"), /shape: got/],
  ["objects", header("|O", "2,"), /got \|O/],
];
for (const [name, text, expected] of REFUSED) {
  test(`readNpy() refuses ${name}`, async () => {
    await assert.rejects(readNpy(await file(text, NUMBERS)), expected);
  });
}

test("readNpy() refuses what is no .npy file, cut off, or not there", async () => {
  const path = join(directory, "other.npy");
  await assert.rejects(readNpy(path), /other\.npy: expected a \.npy file/);
  for (const text of ["", "PK", "\u0093NUMPY", "\u0093NUMPY\u0001\u0000\u00ff"]) {
    await writeFile(path, Buffer.from(text, "latin1"));
    await assert.rejects(readNpy(path), /other\.npy: (expected a \.npy file|header)/);
  }
});
