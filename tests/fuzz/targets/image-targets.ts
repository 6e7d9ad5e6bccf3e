/** Readers of images: their headers, and the decoder behind them (PNG, JPEG, WebP). */
import assert from "node:assert/strict";
import { loadDecoder } from "../../../images/src/decode-image.ts";
import { readImageHeader } from "../../../images/src/image-header.ts";
import { expectDecodable, readImageSource } from "../../../images/src/image-source.ts";
import type { Random } from "../../support/random.ts";
import { corpusFiles } from "../corpus-files.ts";
import { type FuzzTarget, isServerError } from "../fuzz-target.ts";
import { mutateBytes } from "../mutators/mutate-bytes.ts";

const MAX_PIXELS = 100_000;
const MAX_CASE_MS = 500;
const seeds: readonly Buffer[] = corpusFiles("images");

/** As a file, as base64, or as a data URL. */
function mutateSource(seed: Buffer, random: Random): Buffer {
  const bytes = mutateBytes(seed, random);
  const form = random.below(6);
  if (form === 0) return Buffer.from(bytes.toString("base64"));
  if (form === 1) return mutateBytes(Buffer.from(`data:image/png;base64,${bytes.toString("base64")}`), random);
  return bytes;
}

const imageHeaders: FuzzTarget = {
  name: "image-header",
  seeds,
  mutate: mutateSource,
  read: (input) => {
    const source = readImageSource(input);
    if (source.kind === "url") return;
    expectDecodable(source.bytes, MAX_PIXELS);
    const { width = 0, height = 0 } = readImageHeader(source.bytes) ?? {};
    assert.ok(width * height > 0 && width * height <= MAX_PIXELS);
  },
  isRefusal: isServerError,
  maxCaseMs: MAX_CASE_MS,
};

/** The library decodes in threads of its own; a fault of it ends the process. */
const decoder = loadDecoder();

const imageDecoder: FuzzTarget = {
  name: "image-decoder",
  seeds,
  mutate: mutateBytes,
  read: async (input) => {
    expectDecodable(input, MAX_PIXELS);
    const decode = await decoder;
    const { width, height, channels, data } = await decode(input, MAX_PIXELS);
    assert.equal(data.length, width * height * channels);
  },
  isRefusal: isServerError,
  maxCaseMs: MAX_CASE_MS,
};

export const IMAGE_TARGETS: readonly FuzzTarget[] = [imageHeaders, imageDecoder];
