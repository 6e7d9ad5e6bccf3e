import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { countLines, DECODERS, decoderRows, ENCODER_DECODERS, ENCODERS, TABLE_FILE } from "./model-table.ts";

const LINES = readFileSync(TABLE_FILE, "utf8").split("\n");
const cells = (line: string): string[] => line.split(" | ").map((cell) => cell.replace(/^\| | \|$/g, ""));

test("docs/models.md has a row for each recorded class, with its files and devices", () => {
  const rows = LINES.filter((line) => line.startsWith("| `")).map(cells);
  const decoders = rows
    .filter((row) => row.length === 6)
    .map(([name, recorded, , , gguf, gpu]) => [name, recorded, gguf, gpu]);
  const wanted = decoderRows().map(({ className, recorded, gguf, gpu }) => [
    `\`${className}\``,
    String(recorded),
    gguf,
    gpu,
  ]);
  assert.deepEqual(decoders, wanted);
  const pairs = rows.filter((row) => row.length === 4).map(([name, recorded]) => [name, recorded]);
  assert.deepEqual(
    pairs,
    [...ENCODER_DECODERS].map(([name, folders]) => [`\`${name}\``, String(folders.length)]),
  );
  const encoders = rows.filter((row) => row.length === 3).map(([name]) => name);
  assert.deepEqual(
    encoders,
    [...ENCODERS.keys()].map((name) => `\`${name}\``),
  );
});

test("docs/models.md counts what is served", () => {
  assert.ok(LINES.includes(countLines()), countLines());
});

test("docs/models.md has no difference above 1e-4 and no other token", () => {
  const rows = LINES.filter((line) => line.startsWith("| `")).map(cells);
  assert.equal(rows.length, DECODERS.size + ENCODER_DECODERS.size + ENCODERS.size);
  for (const [name, , difference, tokens = "0 of 0"] of rows) {
    assert.ok(Number(difference) < 1e-4, `${name}: ${difference}`);
    assert.match(tokens, /^0 of \d+$/, name);
  }
});
