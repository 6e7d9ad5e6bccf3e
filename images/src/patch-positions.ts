/** Where each patch of images lies, in the order in which patches are given: squares that become one visual token. Pure. */

/** Number of the image, row, column. */
export const POSITION_AXES = 3;

/** [patches, 3]; `grids` has frames, rows and columns of each image. Each frame counts as an image of its own. */
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
