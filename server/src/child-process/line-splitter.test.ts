import assert from "node:assert/strict";
import { test } from "node:test";
import { LineSplitter } from "./line-splitter.ts";

test("`push()` delivers whole lines when chunks cut lines and characters", () => {
  const lines: string[] = [];
  const splitter = new LineSplitter((line) => lines.push(line));
  const bytes = Buffer.from("zażółć\r\n\nsecond\nlast");
  for (const byte of bytes) splitter.push(Buffer.of(byte));
  assert.deepEqual(lines, ["zażółć", "", "second"]);
  splitter.end();
  assert.deepEqual(lines.at(-1), "last");
});

test("`push()` cuts a line when it has no end", () => {
  const lines: string[] = [];
  const splitter = new LineSplitter((line) => lines.push(line));
  splitter.push(Buffer.alloc(40_000, "x"));
  splitter.end();
  assert.deepEqual(
    lines.map(({ length }) => length),
    [16_384, 16_384, 7232],
  );
});
