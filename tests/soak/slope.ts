/** The trend of a series of measurements: least squares. */

/** Growth of y for each `unit` of x, rounded; 0 for fewer than two points. */
export function slopePer(unit: number, points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (index: 0 | 1): number => points.reduce((sum, point) => sum + point[index], 0) / points.length;
  const [meanX, meanY] = [mean(0), mean(1)];
  let [products, squares] = [0, 0];
  for (const [x, y] of points) {
    products += (x - meanX) * (y - meanY);
    squares += (x - meanX) ** 2;
  }
  return squares === 0 ? 0 : Math.round((products / squares) * unit);
}
