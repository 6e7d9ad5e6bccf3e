import assert from "node:assert/strict";
import { test } from "node:test";
import { EventStreamParser } from "./event-stream.ts";

const LIMIT = 100;

function parse(chunks: readonly Uint8Array[]): string[] {
  const parser = new EventStreamParser(LIMIT);
  const events = chunks.flatMap((chunk) => parser.push(chunk)).map((event) => Buffer.from(event).toString());
  parser.end();
  return events;
}

const streams: [what: string, text: string, events: readonly string[]][] = [
  ["one event", "data: a\n\n", ["a"]],
  ["no space behind the colon", "data:a\n\n", ["a"]],
  ["two spaces", "data:  a\n\n", [" a"]],
  ["CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]],
  ["CR alone", "data: a\r\rdata: b\r\r", ["a", "b"]],
  ["several lines", "data: a\ndata: b\ndata\n\n", ["a\nb\n"]],
  ["comments and other fields", ": hi\nevent: x\nid: 7\ndatabase: y\ndata: a\nretry: 1\n\n", ["a"]],
  ["an event without data", "event: ping\n\ndata: a\n\n", ["a"]],
  ["UTF-8 of every length", "data: aé€😀\n\n", ["aé€😀"]],
  ["nothing", "", []],
];
for (const [what, text, events] of streams) {
  test(`push() gives the events of ${what}, wherever chunks end`, () => {
    const bytes = Buffer.from(text);
    assert.deepEqual(parse([bytes]), events);
    assert.deepEqual(parse([...bytes].map((byte) => Uint8Array.of(byte))), events);
    for (let at = 0; at <= bytes.length; at++) {
      assert.deepEqual(parse([bytes.subarray(0, at), bytes.subarray(at)]), events, `cut at ${at}`);
    }
  });
}

for (const text of ["data: a", "data: a\n", "data: a\n\ndata"]) {
  test(`end() refuses a stream that breaks off as ${JSON.stringify(text)}`, () => {
    assert.throws(() => parse([Buffer.from(text)]), { kind: "protocol", message: /ended within an event/ });
  });
}

test("push() keeps an event of the largest size and refuses a longer one, in one line or in many", () => {
  const line = `data: ${"x".repeat(LIMIT - 6)}`;
  assert.equal(parse([Buffer.from(`${line}\n\n`)])[0]?.length, LIMIT - 6);
  assert.throws(() => parse([Buffer.from(`${line}x\n\n`)]), { kind: "protocol", message: /maxResponseBytes \(100\)/ });
  assert.throws(() => parse([Buffer.from("data: 0123456789\n".repeat(12))]), { kind: "protocol" });
});
