import assert from "node:assert/strict";
import { test } from "node:test";
import { bestResolution, END_OF_ROW, type TileLayout, tileOrder } from "./image-tiles.ts";

const size = (height: number, width: number): { height: number; width: number } => ({ height, width });
const PINPOINTS = [size(336, 672), size(672, 336), size(672, 672), size(1008, 336), size(336, 1008)];
/** Tile layout of llava-v1.6. */
const LLAVA: TileLayout = {
  pinpoints: PINPOINTS,
  tileSize: 336,
  whole: size(336, 336),
  patchSize: 14,
  filter: "bicubic",
};
/** Sizes of images, rows and columns of tiles, visual tokens: as transformers' LlavaNextModel has them. */
const SIZES = [
  { image: size(480, 640), rows: 2, columns: 2, tokens: 2340 },
  { image: size(640, 480), rows: 2, columns: 2, tokens: 2352 },
  { image: size(336, 336), rows: 1, columns: 2, tokens: 1176 },
  { image: size(1000, 100), rows: 3, columns: 1, tokens: 1224 },
  { image: size(37, 1500), rows: 1, columns: 3, tokens: 722 },
  { image: size(1, 1), rows: 1, columns: 2, tokens: 1176 },
  { image: size(899, 1024), rows: 2, columns: 2, tokens: 2634 },
  { image: size(333, 500), rows: 1, columns: 2, tokens: 1464 },
  { image: size(2000, 1999), rows: 2, columns: 2, tokens: 2928 },
];

for (const { image, rows, columns, tokens } of SIZES) {
  test(`tiles of ${image.height} x ${image.width} are ${rows} x ${columns}, with ${tokens} visual tokens`, () => {
    assert.deepEqual(bestResolution(image, PINPOINTS), size(rows * 336, columns * 336));
    const order = tileOrder(image, LLAVA);
    assert.equal(order.length, tokens);
    assert.ok(order.every((patch) => patch >= END_OF_ROW && patch < (1 + rows * columns) * 576));
  });
}

test("tileOrder() reads across tiles, without the border, and ends each row", () => {
  const layout = { ...LLAVA, pinpoints: [size(4, 4)], tileSize: 2, patchSize: 1, whole: size(2, 2) };
  // Tiles of four patches: 0 to 3 in small, 4 to 7 and 8 to 11 above, 12 to 15 and 16 to 19 below.
  assert.deepEqual([...tileOrder(size(2, 4), layout)], [0, 1, 2, 3, 6, 7, 10, 11, -1, 12, 13, 16, 17, -1]);
  assert.deepEqual([...tileOrder(size(8, 4), layout)].slice(4), [5, 8, -1, 7, 10, -1, 13, 16, -1, 15, 18, -1]);
});
