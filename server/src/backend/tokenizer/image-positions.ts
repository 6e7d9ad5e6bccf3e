/**
 * Token positions for M-RoPE models (Qwen2-VL, Wang et al. 2024): text counts up in all three axes. An image starts
 * after the text before it; the text after it continues from its longer side. Pure.
 */
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { ImageRows } from "./image-rows.ts";

/** Time, row and column. */
export const NUM_AXES = 3;

/** Visual tokens of an image. */
interface ImageGrid {
  readonly rows: number;
  readonly columns: number;
}

/**
 * Grids of the images of each prompt; `values` are frames, rows and columns in patches. The merge factor follows from
 * the number of tokens. @throws ServerError when grids and images do not fit
 */
export function readGrids(values: Int32Array, prompts: readonly ImageRows[]): readonly (readonly ImageGrid[])[] {
  const count = prompts.reduce((sum, { lengths }) => sum + lengths.length, 0);
  if (values.length !== NUM_AXES * count) {
    throw wrong(`has ${values.length} numbers, expected frames, rows and columns of each of ${count} images`);
  }
  let at = 0;
  return prompts.map(({ lengths }) =>
    lengths.map((length) => {
      const [frames = 0, rows = 0, columns = 0] = values.subarray(at, at + NUM_AXES);
      at += NUM_AXES;
      return gridOf(frames, rows, columns, length);
    }),
  );
}

function gridOf(frames: number, rows: number, columns: number, length: number): ImageGrid {
  const side = Math.sqrt((frames * rows * columns) / length);
  const fits = frames === 1 && Number.isInteger(side) && side > 0 && rows % side === 0 && columns % side === 0;
  if (!fits) throw wrong(`says ${frames} x ${rows} x ${columns} patches of an image with ${length} visual tokens`);
  return { rows: rows / side, columns: columns / side };
}

/** [3, ids.length]; ids from `firstRow` on are rows of the images, in order. */
export function promptPositions(ids: Int32Array, firstRow: number, images: readonly ImageGrid[]): Int32Array {
  const { length } = ids;
  const out = new Int32Array(NUM_AXES * length);
  let [next, image, at] = [0, 0, 0];
  while (at < length) {
    if ((ids[at] ?? 0) < firstRow) {
      for (let axis = 0; axis < NUM_AXES; axis++) out[axis * length + at] = next;
      next += 1;
      at += 1;
      continue;
    }
    const { rows, columns } = images[image++] ?? { rows: 1, columns: 1 };
    for (let i = 0; i < rows * columns; i++, at++) {
      out[at] = next;
      out[length + at] = next + Math.floor(i / columns);
      out[2 * length + at] = next + (i % columns);
    }
    next += Math.max(rows, columns);
  }
  return out;
}

function wrong(text: string): ServerError {
  return invalidArgument(`input 'IMAGE_GRID_THW' ${text}`);
}
