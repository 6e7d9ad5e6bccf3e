#!/usr/bin/env node
/**
 * Writes captions for `nereid index`, a line of JSON each: those of all scenes that nereid-tiny can draw, and others up to the
 * number asked for. The same arguments write the same bytes.
 *
 *   node examples/scenes/make-captions.mjs --count 10000 --output captions.jsonl
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { allScenes, captionOf, seededRandom, sentenceOf, shuffled } from "./scene.mjs";

const { values: flags } = parseArgs({
  options: {
    count: { type: "string", default: "10000" },
    output: { type: "string", default: "captions.jsonl" },
    seed: { type: "string", default: "1" },
  },
});
const count = Number(flags.count);
const random = seededRandom(Number(flags.seed));
const scenes = shuffled([...allScenes()], random).slice(0, count);
const records = scenes.map((scene) => ({
  text: captionOf(scene),
  background: scene.background,
  shapes: scene.shapes.length,
}));
const others = otherCaptions(random);
while (records.length < count) records.push(others.next().value);
const lines = shuffled(records, random).map(
  (record, i) => `${JSON.stringify({ id: `caption-${i}`, sentence: sentenceOf(record.text), ...record })}\n`,
);
writeFileSync(flags.output, lines.join(""));
console.log(`${flags.output}: ${lines.length} captions, ${scenes.length} of scenes that nereid-tiny draws`);

/** Sentences of the same kind about things that are in no picture. */
function* otherCaptions(random) {
  const pick = (words) => words[Math.floor(random() * words.length)];
  const things = ["boat", "tree", "house", "cat", "dog", "bird", "star", "moon", "flower", "car", "fish", "chair"];
  const looks = ["small", "old", "happy", "wooden", "golden", "silver", "tiny", "sleepy", "bright", "quiet"];
  const places = [
    "in a garden",
    "by the sea",
    "in the forest",
    "on a table",
    "under the stars",
    "near a river",
    "on a hill",
  ];
  const seen = new Set();
  while (true) {
    const text = `a ${pick(looks)} ${pick(things)} and a ${pick(looks)} ${pick(things)} ${pick(places)}`;
    if (seen.has(text)) continue;
    seen.add(text);
    yield { text, background: "none", shapes: 0 };
  }
}
