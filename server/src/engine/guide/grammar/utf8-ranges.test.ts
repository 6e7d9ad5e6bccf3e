import assert from "node:assert/strict";
import { test } from "node:test";
import { utf8Sequences } from "./utf8-ranges.ts";

function holds(first: number, last: number, bytes: Uint8Array): boolean {
  return utf8Sequences([first, last]).some((sequence) => {
    return (
      sequence.length === bytes.length &&
      sequence.every(([low, high], i) => low <= (bytes[i] ?? -1) && (bytes[i] ?? 256) <= high)
    );
  });
}

test("utf8Sequences() holds the code points of the range, and no others", () => {
  const edges = [0, 1, 0x41, 0x7f, 0x80, 0xe9, 0x7ff, 0x800, 0xfff, 0x1000, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff];
  const points = edges.flatMap((edge) => [edge - 1, edge, edge + 1]).filter((point) => isScalar(point));
  for (const first of edges) {
    for (const last of edges.filter((edge) => edge >= first)) {
      for (const point of points) {
        const bytes = new TextEncoder().encode(String.fromCodePoint(point));
        assert.equal(holds(first, last, bytes), point >= first && point <= last, `${point} in ${first} to ${last}`);
      }
    }
  }
});

test("utf8Sequences() leaves out what is no UTF-8", () => {
  for (const bytes of [[0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe0, 0x80, 0x80], [0x80]]) {
    assert.equal(holds(0, 0x10ffff, Uint8Array.from(bytes)), false, bytes.join());
  }
});

function isScalar(point: number): boolean {
  return point >= 0 && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
}
