import assert from "node:assert/strict";
import { test } from "node:test";
import { boundaryOf, readForm } from "./multipart.ts";

interface SeenPart {
  readonly name: string;
  readonly fileName: string | undefined;
  readonly text: string;
}

async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function partsOf(body: Uint8Array | string, boundary: string, pieceBytes = 1e9): Promise<SeenPart[]> {
  const parts: SeenPart[] = [];
  for await (const { name, fileName, content } of readForm(inPieces(Buffer.from(body), pieceBytes), boundary)) {
    const pieces: Uint8Array[] = [];
    for await (const piece of content) pieces.push(piece);
    parts.push({ name, fileName, text: Buffer.concat(pieces).toString("utf8") });
  }
  return parts;
}

test("a form that fetch() writes is read alike in pieces of every size", async () => {
  const form = new FormData();
  form.append("purpose", "batch");
  form.append("file", new Blob(["one\r\n--two\r\n\r\n--"]), 'a "b"\n.jsonl');
  form.append("empty", "");
  const request = new Request("http://localhost", { method: "POST", body: form });
  const boundary = boundaryOf(request.headers.get("content-type") ?? "") ?? "";
  const body = Buffer.from(await request.arrayBuffer());
  for (const size of [1, 2, 3, 7, 61, 1000]) {
    assert.deepEqual(await partsOf(body, boundary, size), [
      { name: "purpose", fileName: undefined, text: "batch" },
      { name: "file", fileName: 'a "b"\n.jsonl', text: "one\r\n--two\r\n\r\n--" },
      { name: "empty", fileName: undefined, text: "" },
    ]);
  }
});

test("a preamble and an epilogue mean nothing", async () => {
  const body = 'before\r\n--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\nafter';
  assert.deepEqual(await partsOf(body, "x"), [{ name: "a", fileName: undefined, text: "1" }]);
});

for (const [title, body, error] of [
  ["empty", "", /ends before/],
  ["cut in a part", '--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n1', /ends before/],
  ["without a name", "--x\r\ncontent-type: text/plain\r\n\r\n1\r\n--x--", /without a name/],
  ["with an endless head", `--x\r\n${"a".repeat(20_000)}`, /head of a part is too long/],
  ["of too many parts", '--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n\r\n'.repeat(65), /more than 64 parts/],
] as const) {
  test(`a form ${title} is refused`, async () => {
    await assert.rejects(partsOf(body, "x"), error);
  });
}

test("boundaryOf() reads quoted and plain boundaries of forms alone", () => {
  assert.equal(boundaryOf("multipart/form-data; boundary=abc"), "abc");
  assert.equal(boundaryOf('Multipart/Form-Data; charset=utf-8; boundary="a b"'), "a b");
  assert.equal(boundaryOf("multipart/mixed; boundary=abc"), undefined);
  assert.equal(boundaryOf("application/json"), undefined);
  assert.equal(boundaryOf(`multipart/form-data; boundary=${"a".repeat(300)}`), undefined);
});
