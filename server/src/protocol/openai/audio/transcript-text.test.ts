import assert from "node:assert/strict";
import { test } from "node:test";
import { srtOf, verboseOf, vttOf } from "./transcript-text.ts";

const CUES = [
  { startSeconds: 0, endSeconds: 1.5, text: " one" },
  { startSeconds: 3661.02, endSeconds: 3662, text: " two --> three" },
];

test("srtOf() and vttOf() number and time the segments", () => {
  const srt = "1\n00:00:00,000 --> 00:00:01,500\none\n\n2\n01:01:01,020 --> 01:01:02,000\ntwo -> three\n";
  assert.equal(srtOf(CUES), srt);
  const vtt = "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\none\n\n01:01:01.020 --> 01:01:02.000\ntwo -> three\n";
  assert.equal(vttOf(CUES), vtt);
});

test("verboseOf() names the language, and leaves out scores that the model does not give", () => {
  const segment = { seek: 0, startSeconds: 0, endSeconds: 2, text: " ja", tokens: [4], meanLogProb: undefined };
  const facts = { task: "transcribe" as const, durationSeconds: 2.2, temperature: 0 };
  assert.deepEqual(verboseOf({ text: "ja", language: "de", segments: [segment] }, facts), {
    task: "transcribe",
    language: "german",
    duration: 2.2,
    text: "ja",
    segments: [
      { id: 0, seek: 0, start: 0, end: 2, text: " ja", tokens: [4], temperature: 0, compression_ratio: 3 / 11 },
    ],
    usage: { type: "duration", seconds: 3 },
  });
});
