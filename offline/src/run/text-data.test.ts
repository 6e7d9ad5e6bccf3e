import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { BUILT_IN, readTexts, tokenPieces } from "./text-data.ts";

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "texts-"));
});
after(() => rm(folder, { recursive: true }));

async function file(name: string, content: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

test("readTexts() takes a text whole, and a text from each line of JSON", async () => {
  assert.deepEqual(await readTexts(await file("a.txt", "one\ntwo\n")), ["one\ntwo\n"]);
  const lines = '{"text": "one"}\n\n{"id": 2, "article": "two"}\n';
  assert.deepEqual(await readTexts(await file("a.jsonl", lines)), ["one", "two"]);
  assert.ok((await readTexts(BUILT_IN)).every((text) => text.length > 200));
});

test("readTexts() names the line that holds no text", async () => {
  const cases = [
    ['{"text": "one"}\nno', "Expected a JSON object on each line", 2],
    ['{"words": "one"}', "Expected a field named text, article, content, prompt, input", 1],
    ["null", "Expected a field named text, article, content, prompt, input", 1],
  ] as const;
  for (const [content, message, line] of cases) {
    const path = await file("b.jsonl", content);
    await assert.rejects(readTexts(path), { message, at: { file: path, line } });
  }
  await assert.rejects(readTexts(join(folder, "none.txt")), /Cannot read .*none\.txt: it does not exist/);
});

/** A token for each character. */
const characters = (bosId: number | undefined) => ({
  bosId,
  encode: (text: string) => Int32Array.from(text, (character) => character.charCodeAt(0)),
});

test("tokenPieces() cuts texts behind the start token and leaves out what is too short to foretell", () => {
  const pieces = tokenPieces(["abcdefg", "hi"], characters(1), { maxTokens: 4, maxPieces: 10 });
  assert.deepEqual(
    pieces.map((piece) => [...piece]),
    [
      [1, 97, 98, 99],
      [1, 100, 101, 102],
      [1, 104, 105],
    ],
  );
  assert.equal(tokenPieces(["abcdefg"], characters(undefined), { maxTokens: 2, maxPieces: 2 }).length, 2);
});
