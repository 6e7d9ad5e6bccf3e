import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reporter } from "@nereid/server/files/progress";
import { MemoryStore } from "../stores/memory-store.ts";
import { CsvSplitter } from "./csv.ts";
import { type Encoder, indexRecords } from "./index-records.ts";
import { collectionNameOf, type IndexRecord, readRecords } from "./read-records.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "nereid-indexing-"));
after(() => rmSync(FOLDER, { recursive: true }));
const FIELDS = { id: "id", text: "text", image: undefined };
const IMAGE = fileURLToPath(new URL("../../../tests/vision/images/tiny.png", import.meta.url));

function fileOf(name: string, text: string): string {
  const path = join(FOLDER, name);
  writeFileSync(path, text);
  return path;
}

async function all(records: AsyncIterable<IndexRecord>): Promise<IndexRecord[]> {
  const found: IndexRecord[] = [];
  for await (const record of records) found.push(record);
  return found;
}

const CSV: readonly (readonly [text: string, rows: readonly (readonly string[])[]])[] = [
  [
    "a,b\r\n1,2\r\n",
    [
      ["a", "b"],
      ["1", "2"],
    ],
  ],
  [
    '"x, y","he said ""no"""\n\n"two\nlines",',
    [
      ["x, y", 'he said "no"'],
      ["two\nlines", ""],
    ],
  ],
  ["é,日本\n", [["é", "日本"]]],
  ['a"b,c', [['a"b', "c"]]],
];
for (const [text, rows] of CSV) {
  test(`CsvSplitter reads ${JSON.stringify(text)}, however it is cut`, () => {
    for (const size of [1, 2, 100]) {
      const splitter = new CsvSplitter();
      const found = [];
      for (let at = 0; at < text.length; at += size) found.push(...splitter.push(text.slice(at, at + size)));
      found.push(...splitter.finish());
      assert.deepEqual(
        found.map(({ cells }) => cells),
        rows,
      );
    }
  });
}

test("CsvSplitter counts lines, and complains of a quote that is never closed", () => {
  const splitter = new CsvSplitter();
  assert.deepEqual(
    splitter.push('a\n"b\nc"\nd\n').map(({ line }) => line),
    [1, 2, 4],
  );
  splitter.push('"e\nf');
  assert.throws(() => splitter.finish(), /opened in line 5 is never closed/);
});

test("`readRecords()` reads lines of JSON, tables and folders of images", async () => {
  const lines = fileOf("lines.jsonl", '{"id": 7, "text": "seven", "year": 1}\n\n{"id": "b", "text": "bee"}');
  assert.deepEqual(await all(readRecords(lines, FIELDS)), [
    { id: "7", content: "seven", document: { id: 7, text: "seven", year: 1 } },
    { id: "b", content: "bee", document: { id: "b", text: "bee" } },
  ]);
  const table = fileOf("table.csv", '\ufeffkey,words\n1,"one, two"\n');
  assert.deepEqual(await all(readRecords(table, { id: "key", text: "words", image: undefined })), [
    { id: "1", content: "one, two", document: { key: "1", words: "one, two" } },
  ]);
  mkdirSync(join(FOLDER, "images/inner"), { recursive: true });
  copyFileSync(IMAGE, join(FOLDER, "images/b.PNG"));
  copyFileSync(IMAGE, join(FOLDER, "images/inner/a.png"));
  fileOf("images/notes.txt", "no image");
  const images = await all(readRecords(join(FOLDER, "images"), FIELDS));
  assert.deepEqual(
    images.map(({ id, document }) => [id, document]),
    [
      ["b.PNG", { path: "b.PNG" }],
      ["inner/a.png", { path: "inner/a.png" }],
    ],
  );
  const listed = fileOf("listed.jsonl", '{"id": "1", "file": "images/b.PNG"}');
  const [record] = await all(readRecords(listed, { ...FIELDS, image: "file" }));
  assert.equal(record?.content.length, images[0]?.content.length);
});

for (const [name, text, message, line] of [
  ["broken.jsonl", '{"id": "1", "text": "a"}\n{"id"\n', /Not a JSON object/, 2],
  ["list.jsonl", "[1]\n", /Not a JSON object/, 1],
  ["no-id.jsonl", '{"text": "a"}\n', /Expected 'id' to be an id/, 1],
  ["no-text.jsonl", '{"id": "1", "body": "a"}\n', /Expected 'text' to be a text/, 1],
  ["short.csv", "id,text\n1\n", /Expected 2 cells as in the first line, got 1/, 2],
] as const) {
  test(`\`readRecords()\` names file and line of ${name}`, async () => {
    const path = fileOf(name, text);
    await assert.rejects(all(readRecords(path, FIELDS)), { message, at: { file: path, line } });
  });
}

test("`collectionNameOf()` makes a name of a path", () => {
  assert.deepEqual(["/data/my captions.v2.jsonl", "images/", "2024.csv"].map(collectionNameOf), [
    "my_captions_v2",
    "images",
    "c_2024",
  ]);
});

/** Vectors of a text's length; counts what it was asked. */
function encoderOf(asked: string[], name = "m"): Encoder {
  return {
    name,
    batchSize: 3,
    encode: (contents) => {
      asked.push(...contents.map(String));
      return Promise.resolve(contents.map((content) => Float32Array.of(content.length, 1)));
    },
  };
}

async function* recordsOf(...texts: readonly (readonly [id: string, text: string])[]): AsyncGenerator<IndexRecord> {
  for (const [id, text] of texts) yield await Promise.resolve({ id, content: text, document: { text } });
}

test("`indexRecords()` goes on after a failure, writes a changed record again, and leaves the others alone", async () => {
  const store = new MemoryStore(join(FOLDER, "memory"));
  const texts = Array.from({ length: 10 }, (_, i) => [`id${i}`, `text ${i}`] as const);
  const asked: string[] = [];
  const run = (records: AsyncIterable<IndexRecord>, encoder = encoderOf(asked)) =>
    indexRecords({
      ...{ records, encoder, store, collection: "things", metric: "cosine", isApproximate: false, parallel: 2 },
      ...{ reporter: new Reporter({ mode: "quiet", command: "index" }), signal: new AbortController().signal },
    });
  let calls = 0;
  const failing: Encoder = {
    ...encoderOf(asked),
    encode: (contents, signal) => {
      calls += 1;
      return calls === 3 ? Promise.reject(new Error("cut")) : encoderOf(asked).encode(contents, signal);
    },
  };
  await assert.rejects(run(recordsOf(...texts), failing), /cut/);
  const written = asked.length;
  assert.ok(written >= 6 && written < 10);
  assert.deepEqual(await run(recordsOf(...texts)), { numRecords: 10, numWritten: 10 - written, dimensions: 2 });
  assert.deepEqual([...asked].sort(), texts.map(([, text]) => text).sort());
  assert.deepEqual(await run(recordsOf(...texts)), { numRecords: 10, numWritten: 0, dimensions: undefined });
  const changed = await run(recordsOf(["id3", "another text"], ["id4", "text 4"], ["id3", "the last word"]));
  assert.deepEqual([changed.numWritten, asked.at(-1)], [1, "the last word"]);
  assert.equal((await run(recordsOf(...texts), encoderOf(asked, "other"))).numWritten, 10);
  const [hits] = await store.search("things", {
    vectors: [Float32Array.of(1, 0)],
    k: 20,
    metric: "cosine",
    filter: [],
  });
  assert.equal(hits?.length, 10);
});
