import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { decodePng } from "./png.mjs";

const WIDTH = 5;
const HEIGHT = 4;

for (const [colorType, channels] of [
  [2, 3],
  [6, 4],
] as const) {
  for (const filter of [0, 1, 2, 3, 4]) {
    test(`\`decodePng()\` undoes filter ${filter} of images with ${channels} channels`, () => {
      const pixels = Uint8Array.from({ length: WIDTH * HEIGHT * channels }, (_, i) => (i * 97 + i * i * 13) & 255);
      const image = decodePng(encodePng(pixels, channels, colorType, filter));
      assert.deepEqual(image, { width: WIDTH, height: HEIGHT, channels, data: pixels });
    });
  }
}

const plain = encodePng(new Uint8Array(WIDTH * HEIGHT * 3), 3, 2, 0);
const REFUSED: readonly (readonly [name: string, file: Buffer, message: RegExp])[] = [
  ["another signature", Buffer.from("GIF89a"), /wrong signature/],
  ["a palette", encodePng(new Uint8Array(WIDTH * HEIGHT * 3), 3, 3, 0), /expected 8 bits per channel, RGB or RGBA/],
  ["an unknown filter", encodePng(new Uint8Array(WIDTH * HEIGHT * 3), 3, 2, 7), /unknown filter 7/],
  ["a file cut off", plain.subarray(0, 40), /no IDAT chunk/],
];

for (const [name, file, message] of REFUSED) {
  test(`\`decodePng()\` refuses ${name}`, () => {
    assert.throws(() => decodePng(file), message);
  });
}

function encodePng(pixels: Uint8Array, channels: number, colorType: number, filter: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(WIDTH, 0);
  header.writeUInt32BE(HEIGHT, 4);
  header.set([8, colorType], 8);
  const rowBytes = WIDTH * channels;
  const filtered = Buffer.alloc(HEIGHT * (rowBytes + 1));
  for (let at = 0; at < pixels.length; at++) {
    const [x, y] = [at % rowBytes, Math.floor(at / rowBytes)];
    const left = x < channels ? 0 : (pixels[at - channels] ?? 0);
    const up = pixels[at - rowBytes] ?? 0;
    const corner = x < channels ? 0 : (pixels[at - rowBytes - channels] ?? 0);
    filtered[y * (rowBytes + 1)] = filter;
    filtered[y * (rowBytes + 1) + 1 + x] = (pixels[at] ?? 0) - prediction(filter, left, up, corner);
  }
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([
    signature,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(filtered)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** By the rules of the PNG specification, part 9. */
function prediction(filter: number, left: number, up: number, corner: number): number {
  const estimate = left + up - corner;
  const byDistance = [left, up, corner].sort((a, b) => Math.abs(estimate - a) - Math.abs(estimate - b));
  return [0, left, up, Math.floor((left + up) / 2), byDistance[0] ?? 0][filter] ?? 0;
}

function chunk(type: string, data: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  return Buffer.concat([length, Buffer.from(type, "latin1"), data, Buffer.alloc(4)]);
}
