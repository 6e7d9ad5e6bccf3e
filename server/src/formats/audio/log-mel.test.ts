import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { sound } from "../../../../tests/parity/whisper-sound.ts";
import { LogMel } from "./log-mel.ts";

interface Recorded {
  readonly bands: number;
  readonly window: number;
  readonly seconds: number;
  readonly numFrames: number;
  readonly rows: readonly number[];
  readonly values: readonly (readonly number[])[];
  readonly means: readonly number[];
}

/** WhisperFeatureExtractor's, by tests/parity/record_whisper_features.py. */
const RECORDED = JSON.parse(
  readFileSync(new URL("../../../../tests/parity/whisper-features.json", import.meta.url), "utf8"),
) as Readonly<Record<string, Recorded>>;

for (const [name, { bands, seconds, numFrames, rows, values, means }] of Object.entries(RECORDED)) {
  test(`LogMel gives the features of WhisperFeatureExtractor: ${name}, ${bands} bands`, async (t) => {
    const logMel = new LogMel({ numMels: bands, sampleRate: 16_000, fftLength: 400, hopLength: 160 });
    const features = await logMel.features(sound(seconds), numFrames);
    assert.equal(features.length, numFrames * bands);
    let off = 0;
    for (const [i, row] of rows.entries()) {
      for (const [band, value] of (values[i] ?? []).entries()) {
        off = Math.max(off, Math.abs((features[row * bands + band] ?? Number.NaN) - value));
      }
    }
    for (const [band, mean] of means.entries()) {
      let sum = 0;
      for (let frame = 0; frame < numFrames; frame++) sum += features[frame * bands + band] ?? 0;
      off = Math.max(off, Math.abs(sum / numFrames - mean));
    }
    t.diagnostic(`largest difference ${off.toExponential(1)}`);
    assert.ok(off < 1e-4, `off by ${off}`);
  });
}
