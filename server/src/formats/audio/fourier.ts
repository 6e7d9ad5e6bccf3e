/** Discrete Fourier transform of any length, fast for products of small primes. Pure. Source: Stockham 1966; Cooley and Tukey 1965. */

export class FourierTransform {
  readonly #length: number;
  /** Prime factors. */
  readonly #factors: readonly number[];
  /** exp(-2 pi i k / length) for each k. */
  readonly #cos: Float64Array;
  readonly #sin: Float64Array;
  readonly #spare: { readonly re: Float64Array; readonly im: Float64Array };

  constructor(length: number) {
    this.#length = length;
    this.#factors = factorsOf(length);
    this.#cos = Float64Array.from({ length }, (_, k) => Math.cos((2 * Math.PI * k) / length));
    this.#sin = Float64Array.from({ length }, (_, k) => -Math.sin((2 * Math.PI * k) / length));
    this.#spare = { re: new Float64Array(length), im: new Float64Array(length) };
  }

  /** In place. */
  transform(re: Float64Array, im: Float64Array): void {
    let [from, to] = [{ re, im }, this.#spare];
    let stride = 1;
    for (const factor of this.#factors) {
      this.#stage(from, to, factor, stride);
      stride *= factor;
      [from, to] = [to, from];
    }
    if (from.re === re) return;
    re.set(from.re);
    im.set(from.im);
  }

  /** Butterflies of `factor` over groups whose elements are `stride` apart. */
  #stage(from: Complex, to: Complex, factor: number, stride: number): void {
    const numGroups = this.#length / stride / factor;
    for (let group = 0; group < numGroups; group++) {
      for (let j = 0; j < factor; j++) this.#butterfly(from, to, { factor, stride, group, j, numGroups });
    }
  }

  #butterfly(from: Complex, to: Complex, { factor, stride, group, j, numGroups }: Butterfly): void {
    const length = this.#length;
    const turn = length / factor;
    const twist = (j * group * stride) % length;
    const [c, s] = [this.#cos[twist] ?? 0, this.#sin[twist] ?? 0];
    for (let q = 0; q < stride; q++) {
      let [sumRe, sumIm] = [0, 0];
      for (let r = 0; r < factor; r++) {
        const at = q + stride * (group + numGroups * r);
        const w = (j * r * turn) % length;
        const [a, b] = [from.re[at] ?? 0, from.im[at] ?? 0];
        const [wc, ws] = [this.#cos[w] ?? 0, this.#sin[w] ?? 0];
        sumRe += a * wc - b * ws;
        sumIm += a * ws + b * wc;
      }
      const out = q + stride * (factor * group + j);
      to.re[out] = sumRe * c - sumIm * s;
      to.im[out] = sumRe * s + sumIm * c;
    }
  }
}

interface Butterfly {
  readonly factor: number;
  readonly stride: number;
  readonly group: number;
  readonly numGroups: number;
  /** Output of the butterfly. */
  readonly j: number;
}

interface Complex {
  readonly re: Float64Array;
  readonly im: Float64Array;
}

function factorsOf(length: number): readonly number[] {
  const factors: number[] = [];
  let rest = length;
  for (let factor = 2; rest > 1; ) {
    if (rest % factor === 0) {
      factors.push(factor);
      rest /= factor;
    } else {
      factor = factor * factor > rest ? rest : factor + 1;
    }
  }
  return factors;
}
