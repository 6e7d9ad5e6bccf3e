/**
 * Positions of image patches, in patch order: squares that merge into one visual token follow each other (Qwen2-VL,
 * Wang et al. 2024). Pure.
 */

/** Image index, row, column. */
export const POSITION_AXES = 3;

/** [patches, 3]; `grids` has frames, rows and columns of each image. Each frame counts as a separate image. */
export function patchPositions(
  grids: readonly (readonly [frames: number, rows: number, columns: number])[],
  mergeSize: number,
): Int32Array {
  const out = new Int32Array(grids.reduce((sum, [frames, rows, columns]) => sum + frames * rows * columns, 0) * 3);
  let [at, image] = [0, 0];
  for (const [frames, rows, columns] of grids) {
    for (let frame = 0; frame < frames; frame++, image++) {
      for (let i = 0; i < rows * columns; i++) {
        const { row, column } = placeInSquares(i, columns, mergeSize);
        out[at++] = image;
        out[at++] = row;
        out[at++] = column;
      }
    }
  }
  return out;
}

function placeInSquares(
  index: number,
  columns: number,
  side: number,
): { readonly row: number; readonly column: number } {
  const inSquare = index % (side * side);
  const square = (index - inSquare) / (side * side);
  const squaresInRow = columns / side;
  return {
    row: Math.floor(square / squaresInRow) * side + Math.floor(inSquare / side),
    column: (square % squaresInRow) * side + (inSquare % side),
  };
}
