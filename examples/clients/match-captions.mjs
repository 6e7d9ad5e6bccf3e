#!/usr/bin/env node
/**
 * Finds for each example image the caption that fits it best, with two encoders on the server:
 * node examples/clients/match-captions.mjs [--url http://localhost:8000]
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { decodePng } from "./png.mjs";
import { infer, tensor, textTensor } from "./v2-http.mjs";

const EXAMPLE = new URL("../nereid-tiny/", import.meta.url);
const SIDE = 64;

const { values: flags } = parseArgs({ options: { url: { type: "string", default: "http://localhost:8000" } } });
const scenes = JSON.parse(readFileSync(new URL("golden_captions.json", EXAMPLE), "utf8"));
const captions = [...new Set(scenes.map(({ caption }) => caption))];

const images = await encodeImages(scenes.map(({ index }) => pixelsOf(index)));
const texts = await encodeCaptions(captions);
let numRight = 0;
scenes.forEach(({ index, caption }, row) => {
  const found = captions[nearest(images[row], texts)];
  if (found === caption) numRight += 1;
  console.log(
    `scene_${String(index).padStart(2, "0")}.png  ${found}${found === caption ? "" : `  (expected: ${caption})`}`,
  );
});
console.log(`${numRight} of ${scenes.length} right`);
process.exitCode = numRight === scenes.length ? 0 : 1;

/** Red, green and blue planes, 0 to 1. */
function pixelsOf(index) {
  const path = new URL(`images/scene_${String(index).padStart(2, "0")}.png`, EXAMPLE);
  const { width, height, channels, data } = decodePng(readFileSync(path));
  if (width !== SIDE || height !== SIDE) throw new Error(`${path}: ${width} x ${height}, expected ${SIDE} x ${SIDE}`);
  const area = SIDE * SIDE;
  return Float32Array.from({ length: 3 * area }, (_, at) => data[(at % area) * channels + Math.floor(at / area)] / 255);
}

async function encodeImages(planes) {
  const pixels = new Float32Array(planes.length * 3 * SIDE * SIDE);
  planes.forEach((plane, row) => {
    pixels.set(plane, row * plane.length);
  });
  const outputs = await infer(flags.url, "vision_encoder", [
    tensor("pixel_values", "FP32", [planes.length, 3, SIDE, SIDE], pixels),
  ]);
  return rowsOf(outputs.get("image_embeds"));
}

/** The server's own tokenizer makes the ids; what lies beyond a caption's length is padding and masked. */
async function encodeCaptions(lines) {
  const rows = lines.length;
  const tokens = await infer(flags.url, "preprocessing", [
    textTensor("QUERY", lines, [rows, 1]),
    tensor("REQUEST_OUTPUT_LEN", "INT32", [rows, 1], new Int32Array(rows)),
  ]);
  const { shape, values } = tokens.get("INPUT_ID");
  const lengths = tokens.get("REQUEST_INPUT_LEN").values;
  const width = shape[1];
  const mask = BigInt64Array.from(values, (_, at) => (at % width < lengths[Math.floor(at / width)] ? 1n : 0n));
  const ids = BigInt64Array.from(values, (id, at) => (mask[at] === 1n ? BigInt(id) : 0n));
  const outputs = await infer(flags.url, "text_encoder", [
    tensor("input_ids", "INT64", shape, ids),
    tensor("attention_mask", "INT64", shape, mask),
  ]);
  return rowsOf(outputs.get("text_embeds"));
}

function rowsOf({ shape, values }) {
  const [rows, width] = shape;
  return Array.from({ length: rows }, (_, row) => values.subarray(row * width, (row + 1) * width));
}

/** Index of the vector with the largest dot product; all have unit length. */
function nearest(vector, candidates) {
  const scores = candidates.map((candidate) => candidate.reduce((sum, value, at) => sum + value * vector[at], 0));
  return scores.indexOf(Math.max(...scores));
}
