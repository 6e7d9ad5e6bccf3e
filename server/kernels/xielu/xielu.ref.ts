/** Reference: xIELU in double precision. Source: Huang and Schlag 2024 (arXiv 2411.13010), section 3; transformers, activations.py. */
export interface XieluRef {
  readonly x: Float32Array;
  /** Before softplus; `linear` is added to the softplus of the negative side. */
  readonly positive: number;
  readonly negative: number;
  readonly linear: number;
}

export function xieluRef({ x, positive, negative, linear }: XieluRef): Float32Array {
  const softplus = (value: number): number => Math.log1p(Math.exp(value));
  const [right, left] = [softplus(positive), linear + softplus(negative)];
  return x.map((value) => (value > 0 ? right * value ** 2 : (Math.expm1(value) - value) * left) + linear * value);
}
