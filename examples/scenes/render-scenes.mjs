#!/usr/bin/env node
/**
 * Draws scenes as PNG files, and captions.jsonl with what each of them shows. The same arguments write the same bytes.
 *
 *   node examples/scenes/render-scenes.mjs --count 500 --output pictures
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { encodePng } from "./encode-png.mjs";
import { allScenes, captionOf, drawScene, SIDE, seededRandom, shuffled } from "./scene.mjs";

const { values: flags } = parseArgs({
  options: {
    count: { type: "string", default: "500" },
    output: { type: "string", default: "pictures" },
    seed: { type: "string", default: "2" },
  },
});
const random = seededRandom(Number(flags.seed));
const scenes = shuffled([...allScenes()], random).slice(0, Number(flags.count));
mkdirSync(flags.output, { recursive: true });
const lines = scenes.map((scene, i) => {
  const file = `picture-${String(i).padStart(4, "0")}.png`;
  writeFileSync(join(flags.output, file), encodePng(SIDE, SIDE, drawScene(scene, random)));
  return `${JSON.stringify({ id: file, file, text: captionOf(scene) })}\n`;
});
writeFileSync(join(flags.output, "captions.jsonl"), lines.join(""));
console.log(`${flags.output}: ${scenes.length} pictures of ${SIDE} x ${SIDE}, and captions.jsonl`);
