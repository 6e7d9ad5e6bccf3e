import assert from "node:assert/strict";
import { test } from "node:test";
import { resample } from "./resample.ts";
import { readWav } from "./wav.ts";

interface Layout {
  readonly code: number;
  readonly bits: number;
  readonly channels?: number;
  readonly rate?: number;
  readonly isExtensible?: boolean;
}

function chunk(name: string, body: Uint8Array): Uint8Array {
  const head = Buffer.alloc(8);
  head.write(name, "latin1");
  head.writeUInt32LE(body.length, 4);
  return Buffer.concat([head, body, Buffer.alloc(body.length % 2)]);
}

function wav({ code, bits, channels = 1, rate = 16_000, isExtensible = false }: Layout, data: Uint8Array): Uint8Array {
  const format = Buffer.alloc(isExtensible ? 40 : 16);
  format.writeUInt16LE(isExtensible ? 0xfffe : code, 0);
  format.writeUInt16LE(channels, 2);
  format.writeUInt32LE(rate, 4);
  format.writeUInt16LE(bits, 14);
  if (isExtensible) format.writeUInt16LE(code, 24);
  const list = chunk("LIST", Buffer.from("odd"));
  const body = Buffer.concat([Buffer.from("WAVE"), chunk("fmt ", format), list, chunk("data", data)]);
  return chunk("RIFF", body);
}

const bytes = (...values: readonly number[]): Uint8Array => Uint8Array.from(values);

test("readWav() reads integers of each size, floats, and the mean of channels", () => {
  const half = [0.5, -0.5];
  const cases: readonly (readonly [Layout, Uint8Array])[] = [
    [{ code: 1, bits: 8 }, bytes(192, 64)],
    [{ code: 1, bits: 16 }, bytes(0, 0x40, 0, 0xc0)],
    [{ code: 1, bits: 24 }, bytes(0, 0, 0x40, 0, 0, 0xc0)],
    [{ code: 1, bits: 32, isExtensible: true }, bytes(0, 0, 0, 0x40, 0, 0, 0, 0xc0)],
    [{ code: 3, bits: 32 }, new Uint8Array(Float32Array.of(0.5, -0.5).buffer)],
    [{ code: 3, bits: 64 }, new Uint8Array(Float64Array.of(0.5, -0.5).buffer)],
    [{ code: 3, bits: 32, channels: 2 }, new Uint8Array(Float32Array.of(1, 0, -0.25, -0.75).buffer)],
  ];
  for (const [layout, data] of cases) assert.deepEqual([...readWav(wav(layout, data)).samples], half);
});

test("readWav() takes a file whose size was left open, and ignores half a sample", () => {
  const file = Buffer.from(wav({ code: 1, bits: 16 }, bytes(0, 0x40, 7)));
  file.writeUInt32LE(0xffffffff, file.indexOf("data") + 4);
  const { samples, sampleRate } = readWav(file.subarray(0, -1));
  assert.deepEqual([[...samples], sampleRate], [[0.5], 16_000]);
});

test("readWav() names other containers, codecs and broken files", () => {
  const others: readonly (readonly [Uint8Array, RegExp])[] = [
    [Buffer.from("OggS...."), /expected a WAV file .* got Ogg: convert it first/],
    [Buffer.from("fLaC...."), /got FLAC/],
    [Buffer.from("ID3....."), /got MP3/],
    [bytes(0xff, 0xfb, 0x90, 0), /got MP3 or AAC/],
    [Buffer.from("....ftypM4A "), /got MP4 or M4A/],
    [bytes(0x1a, 0x45, 0xdf, 0xa3), /got WebM/],
    [new Uint8Array(), /got an empty file/],
    [Buffer.from("hello"), /got something else/],
    [wav({ code: 7, bits: 8 }, bytes(1)), /codec 7 with 8 bits/],
    [wav({ code: 1, bits: 16, rate: 10 }, bytes(0, 0)), /expected 1000 to 192000 samples a second, got 10/],
    [wav({ code: 1, bits: 16, channels: 0 }, bytes(0, 0)), /expected 1 to 64 channels, got 0/],
    [chunk("RIFF", Buffer.concat([Buffer.from("WAVE"), chunk("data", bytes(0, 0))])), /'fmt ' before 'data'/],
    [chunk("RIFF", Buffer.from("WAVE")), /expected a chunk 'data'/],
    [chunk("RIFF", Buffer.concat([Buffer.from("WAVE"), chunk("fmt ", bytes(1))])), /at least 16 bytes, got 1/],
  ];
  for (const [file, expected] of others) assert.throws(() => readWav(file), expected);
});

test("resample() keeps a tone, its loudness and its length", async () => {
  for (const rate of [8000, 22_050, 44_100, 48_000]) {
    const tone = Float32Array.from({ length: rate }, (_, i) => Math.sin((2 * Math.PI * 440 * i) / rate));
    const out = await resample(tone, rate, 16_000);
    assert.equal(out.length, 16_000);
    // The ends have silence beside them.
    const off = out.subarray(200, -200).map((value, i) => value - Math.sin((2 * Math.PI * 440 * (i + 200)) / 16_000));
    assert.ok(Math.max(...off.map(Math.abs)) < 1e-3, `${rate}: off by ${Math.max(...off.map(Math.abs))}`);
  }
});

test("resample() takes off what the new rate cannot hold, and refuses odd rates", async () => {
  const high = Float32Array.from({ length: 48_000 }, (_, i) => Math.sin((2 * Math.PI * 12_000 * i) / 48_000));
  const out = await resample(high, 48_000, 16_000);
  assert.ok(Math.max(...out.subarray(200, -200).map(Math.abs)) < 1e-3);
  await assert.rejects(resample(high, 15_999, 16_000), /expected a usual sample rate, .* got 15999/);
});
