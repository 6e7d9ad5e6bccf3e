import assert from "node:assert/strict";
import { test } from "node:test";
import { createRandom } from "../../../tests/support/random.ts";
import { PieceList } from "./piece-list.ts";

const SEED = 6;

test("PieceList gives the bytes back in order, however they came and go", () => {
  const random = createRandom(SEED);
  for (let round = 0; round < 300; round++) {
    const list = new PieceList();
    let [sent, taken] = [0, 0];
    for (let step = 0; step < 100; step++) {
      if (random.below(3) > 0) {
        const size = random.below(random.below(4) === 0 ? 5000 : 20);
        const start = sent;
        list.push(Uint8Array.from({ length: size }, (_, i) => (start + i) & 255));
        sent += size;
      } else {
        const bytes = list.take(random.below(list.numBytes + 1));
        assert.deepEqual(
          [...bytes],
          Array.from(bytes, (_, i) => (taken + i) & 255),
        );
        taken += bytes.length;
      }
      assert.equal(list.numBytes, sent - taken);
    }
  }
});

test("PieceList keeps one piece as a view, and small ones behind it in few blocks", () => {
  const list = new PieceList();
  const whole = Buffer.from("whole");
  list.push(whole);
  assert.equal(list.take(5), whole);
  for (let i = 0; i < 100_000; i++) list.push(new Uint8Array(1));
  const buffers = new Set(list.pieces.map(({ buffer }) => buffer));
  const heldBytes = [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0);
  assert.ok(buffers.size < 12, `${buffers.size} buffers`);
  assert.ok(heldBytes < 100_000 + 65_536 + 2 * 65_536, `${heldBytes} bytes`);
});
