/** The inverse of the standard normal distribution's cumulative function. Source: Abramowitz and Stegun, 7.1.5 and 26.2.29. */
const BOUND = 5;
const NUM_HALVINGS = 60;
const NUM_TERMS = 120;

/** @throws Error for a share that is not between 0 and 1, or so close to either that the bound is met */
export function normalQuantile(share: number): number {
  let [low, high] = [-BOUND, BOUND];
  if (!(share > cumulative(low) && share < cumulative(high)))
    throw new Error(`expected a share between 0 and 1, got ${share}`);
  for (let i = 0; i < NUM_HALVINGS; i++) {
    const middle = (low + high) / 2;
    if (cumulative(middle) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** By the series of the error function, which converges for all arguments within the bound. */
function cumulative(x: number): number {
  const z = x / Math.SQRT2;
  let term = z;
  let sum = z;
  for (let n = 1; n < NUM_TERMS; n++) {
    term *= (-z * z) / n;
    sum += term / (2 * n + 1);
  }
  return 0.5 + sum / Math.sqrt(Math.PI);
}
