/** Reference of both forms of GELU, in double precision. Source: GELU (Hendrycks and Gimpel 2016). */
export type GeluForm = "tanh" | "erf";

export function geluRef(x: Float32Array, form: GeluForm): Float32Array {
  return x.map((value) => geluOf(value, form));
}

export function geluOf(x: number, form: GeluForm): number {
  if (form === "erf") return 0.5 * x * (1 + erf(x / Math.SQRT2));
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}

/** By its series, whose terms are all of one sign: right to the digits of a double. Source: Abramowitz and Stegun, 7.1.6. */
function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > Math.abs(sum) * Number.EPSILON; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
