import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { compareAnswers } from "./compare-answers.ts";
import type { Answer, HeaderList } from "./recording.ts";

const OPTIONS = { tolerance: { relative: 1e-3, absolute: 1e-6 }, ignored: new Set(["id", "model_version"]) };
const INFER = "/v2/models/m/infer";

function answer(body: string | Buffer, part: { readonly status?: number; readonly headers?: HeaderList } = {}): Answer {
  const { status = 200, headers = [] } = part;
  return { status, message: "", headers, bodies: [Buffer.from(body)], ms: 1 };
}

function differences(path: string, expected: Answer, got: Answer): readonly string[] {
  return compareAnswers({ protocol: "http", path }, expected, got, OPTIONS).map(
    (each) => `${each.at}: ${each.expected} / ${each.got}`,
  );
}

function infer(outputs: readonly object[], version = "1"): string {
  return JSON.stringify({ id: version, model_name: "m", model_version: version, outputs });
}

const tensor = (data: readonly unknown[], datatype = "FP32"): object => ({
  name: "y",
  datatype,
  shape: [data.length],
  data,
});

for (const [what, expected, got, found] of [
  ["numbers within the tolerance", infer([tensor([1, 2])]), infer([tensor([1.0005, 2])], "2"), []],
  [
    "numbers beyond it",
    infer([tensor([1, 2, 3])]),
    infer([tensor([1, 2.1, 3.1])]),
    [/^outputs\.y\[1\] \(2 of 3 differ\): 2 \/ 2\.09/],
  ],
  [
    "texts",
    infer([tensor(["a cat"], "BYTES")]),
    infer([tensor(["a cow"], "BYTES")]),
    [/^outputs\.y\[0\], character 3: "a cat" \/ "a cow"/],
  ],
  ["shapes", infer([tensor([1])]), infer([tensor([1, 2])]), [/^outputs\.y: FP32\[1\] \/ FP32\[2\]/]],
  ["a missing output", infer([tensor([1])]), infer([]), [/^outputs\.y: present \/ absent/]],
] as const) {
  test(`compareAnswers() compares ${what} of inference`, () => {
    const all = differences(INFER, answer(expected), answer(got));
    assert.equal(all.length, found.length);
    for (const [k, pattern] of found.entries()) assert.match(all[k] ?? "", pattern);
  });
}

test("compareAnswers() reads binary tensors and compressed bodies", () => {
  const json = JSON.stringify({
    model_name: "m",
    model_version: "1",
    outputs: [{ name: "y", datatype: "FP16", shape: [1], parameters: { binary_data_size: 2 } }],
  });
  const binary = (bits: number): Answer =>
    answer(Buffer.concat([Buffer.from(json), Buffer.from([bits & 255, bits >> 8])]), {
      headers: [["Inference-Header-Content-Length", String(json.length)]],
    });
  assert.deepEqual(differences(INFER, binary(0x3c00), binary(0x3c00)), []);
  assert.deepEqual(differences(INFER, binary(0x3c00), binary(0x4000)), ["outputs.y[0]: 1 / 2"]);
  const zipped = answer(gzipSync('{"a":1}'), { headers: [["content-encoding", "gzip"]] });
  assert.deepEqual(differences("/v1/completions", zipped, answer('{"a":2}')), ["a: 1 / 2"]);
});

test("compareAnswers() compares the whole text of a stream, however it is cut", () => {
  const path = "/v2/models/m/generate_stream";
  const events = (parts: readonly string[]): Answer =>
    answer(parts.map((text_output) => `data: ${JSON.stringify({ text_output })}\n\n`).join(""));
  assert.deepEqual(
    differences(path, events(["a", "b c"]), events(["a b", ""].map((text) => text.replace(" ", "")).concat(" c"))),
    [],
  );
  assert.deepEqual(differences(path, events(["one two"]), events(["one ", "ten"])), [
    'text of the stream, character 5: "one two" / "one ten"',
  ]);
});

test("compareAnswers() compares status first, then JSON member by member", () => {
  assert.deepEqual(differences("/v1/embeddings", answer("{}"), answer('{"error":"no"}', { status: 500 })), [
    'status: 200 {} / 500 {"error":"no"}',
  ]);
  const expected = answer('{"id":1,"data":[{"v":[1,2]}],"x":true}');
  assert.deepEqual(differences("/v1/embeddings", expected, answer('{"id":2,"data":[{"v":[1,3]}]}')), [
    "data[0].v[1]: 2 / 3",
    "x: true / absent",
  ]);
});
