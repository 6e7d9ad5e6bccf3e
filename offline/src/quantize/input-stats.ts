/** Statistics of the inputs of a model's linear layers, on any device. Pure numbers. */

/** Per input of a linear layer, over all tokens. */
export interface InputStats {
  numTokens: number;
  readonly meanAbs: Float64Array;
  readonly meanSquare: Float64Array;
  readonly maxAbs: Float64Array;
}

/** Sites: layers that read the same rows share one. */
export type LinearSite = "qkv" | "oProj" | "mlpIn" | "mlpOut";

export function siteKey(layer: number, site: LinearSite): string {
  return `${layer} ${site}`;
}

/** Matrices in the model's layers that read a site. */
interface SiteLayer<T> {
  readonly qkv: { readonly weight: T };
  readonly oProj: { readonly weight: T };
  readonly mlp: { readonly router: T } | { readonly in: { readonly weight: T }; readonly out: { readonly weight: T } };
}

/** Site names keyed by `idOf`, which identifies matrices. */
export function sitesByMatrix<T, Id>(
  layers: readonly SiteLayer<T>[],
  idOf: (matrix: T) => Id,
): ReadonlyMap<Id, string> {
  const sites = new Map<Id, string>();
  for (const [i, { qkv, oProj, mlp }] of layers.entries()) {
    sites.set(idOf(qkv.weight), siteKey(i, "qkv"));
    sites.set(idOf(oProj.weight), siteKey(i, "oProj"));
    // A router and its experts read the same inputs.
    sites.set(idOf("router" in mlp ? mlp.router : mlp.in.weight), siteKey(i, "mlpIn"));
    if (!("router" in mlp)) sites.set(idOf(mlp.out.weight), siteKey(i, "mlpOut"));
  }
  return sites;
}

export class StatsCollector {
  readonly #stats = new Map<string, InputStats>();

  /** Rows of `width` numbers each. */
  add(key: string, rows: Float32Array, width: number): void {
    const stats = this.#statsOf(key, width);
    const { meanAbs, meanSquare, maxAbs } = stats;
    for (let start = 0; start < rows.length; start += width) {
      for (let i = 0; i < width; i++) {
        const value = Math.abs(rows[start + i] ?? 0);
        meanAbs[i] = (meanAbs[i] ?? 0) + value;
        meanSquare[i] = (meanSquare[i] ?? 0) + value * value;
        if (value > (maxAbs[i] ?? 0)) maxAbs[i] = value;
      }
    }
    stats.numTokens += rows.length / width;
  }

  /** Converts sums to means. */
  finished(): ReadonlyMap<string, InputStats> {
    for (const { numTokens, meanAbs, meanSquare } of this.#stats.values()) {
      for (let i = 0; i < meanAbs.length; i++) {
        meanAbs[i] = (meanAbs[i] ?? 0) / numTokens;
        meanSquare[i] = (meanSquare[i] ?? 0) / numTokens;
      }
    }
    return this.#stats;
  }

  #statsOf(key: string, width: number): InputStats {
    const known = this.#stats.get(key);
    if (known !== undefined) return known;
    const zeros = (): Float64Array => new Float64Array(width);
    const stats = { numTokens: 0, meanAbs: zeros(), meanSquare: zeros(), maxAbs: zeros() };
    this.#stats.set(key, stats);
    return stats;
  }
}
