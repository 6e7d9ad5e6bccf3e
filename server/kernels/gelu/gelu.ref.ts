/** Reference of both forms of GELU, in double precision. Source: GELU (Hendrycks and Gimpel 2016). */
export type GeluForm = "tanh" | "erf";

export function geluRef(x: Float32Array, form: GeluForm): Float32Array {
  return x.map((value) => geluOf(value, form));
}

export function geluOf(x: number, form: GeluForm): number {
  if (form === "erf") return 0.5 * x * (1 + erf(x / Math.SQRT2));
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}

/** The integral by Simpson's rule: slow, and right to more digits than f32 has. */
function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  const numSteps = 400;
  const width = x / numSteps;
  let sum = 1 + Math.exp(-x * x);
  for (let i = 1; i < numSteps; i++) sum += (i % 2 === 0 ? 2 : 4) * Math.exp(-((i * width) ** 2));
  return (2 / Math.sqrt(Math.PI)) * (width / 3) * sum;
}
