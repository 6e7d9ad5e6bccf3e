/** Plans single device tensors of a decoder: the kinds of modules that models are made of. Pure. */
import type { WeightNames } from "../../formats/hf/weight-names.ts";
import type { DecoderConfig, LayerHeads } from "../config/decoder-config.ts";
import type { Linear, Norm, RowRun, WeightKind, WeightPlan, WeightSource } from "./weight-tree.ts";

export class ModulePlans<T> {
  readonly config: DecoderConfig;
  readonly names: WeightNames;
  readonly #make: (plan: WeightPlan) => T;

  constructor(config: DecoderConfig, names: WeightNames, make: (plan: WeightPlan) => T) {
    this.config = config;
    this.names = names;
    this.#make = make;
  }

  /** Rows that are looked up, or those again as a matrix; never transposed. */
  table(name: string, rows: number, isGemmOperand = false): T {
    const shape = [rows, this.config.hiddenSize] as const;
    return this.#make({ kind: "vocabulary", isGemmOperand, shape, sources: [source(`${name}.weight`, shape)] });
  }

  /** Rows of another width than the model's. */
  wideTable(name: string, rows: number, columns: number): T {
    const shape = [rows, columns] as const;
    return this.#make({ kind: "vocabulary", isGemmOperand: false, shape, sources: [source(`${name}.weight`, shape)] });
  }

  output(name: string, rows: number): T {
    const { names, config } = this;
    if (names.hasUnitOutputRows !== true) return this.matrix([name], [rows], config.hiddenSize, "vocabulary");
    const shape = [rows, config.hiddenSize] as const;
    const sources = [source(`${name}.weight`, shape, "unit-rows")];
    return this.#make({ kind: "vocabulary", isGemmOperand: true, shape, sources });
  }

  positions(name: string, rows: number): T {
    const shape = [rows, this.config.hiddenSize] as const;
    const { positionsOffset: first = 0 } = this.names;
    const whole = source(`${name}.weight`, [first + rows, shape[1]]);
    const sources = [first === 0 ? whole : { ...whole, rows: [{ first, count: rows }] }];
    return this.#make({ kind: "vocabulary", isGemmOperand: false, shape, sources });
  }

  /** Modules whose rows are stacked. */
  matrix(names: readonly string[], rows: readonly number[], columns: number, kind: WeightKind = "matrix"): T {
    const shape = [rows.reduce((sum, count) => sum + count, 0), columns] as const;
    return this.#make({
      kind,
      isGemmOperand: kind !== "exact",
      shape,
      sources: names.map((name, i) => this.#matrixSource(name, rows[i] ?? 0, columns)),
    });
  }

  /** The same for each expert, "#" in the names standing for its number. */
  experts(names: readonly string[], rows: readonly number[], columns: number): T {
    const count = this.config.experts?.numExperts ?? 0;
    const shape = [count, rows.reduce((sum, one) => sum + one, 0), columns] as const;
    const [whole = ""] = names;
    if (!whole.includes("#")) {
      const isTransposed = this.names.experts?.isTransposed === true;
      const tensor = this.names.experts?.hasBareTensors === true ? whole : `${whole}.weight`;
      return this.#make({
        kind: "matrix",
        isGemmOperand: true,
        shape,
        sources: [isTransposed ? transposed(tensor, shape) : source(tensor, shape)],
      });
    }
    const sources = Array.from({ length: count }, (_, expert) =>
      names.map((name, i) => this.#matrixSource(name.replace("#", String(expert)), rows[i] ?? 0, columns)),
    );
    return this.#make({ kind: "matrix", isGemmOperand: true, shape, sources: sources.flat() });
  }

  /** A vector for each expert, of the modules behind each other. */
  expertBiases(names: readonly string[], lengths: readonly number[]): T {
    const count = this.config.experts?.numExperts ?? 0;
    const shape = [count, lengths.reduce((sum, one) => sum + one, 0)] as const;
    const [whole = ""] = names;
    const sources = whole.includes("#")
      ? Array.from({ length: count }, (_, expert) =>
          names.map((name, i) => source(`${name.replace("#", String(expert))}.bias`, [lengths[i] ?? 0])),
        ).flat()
      : [source(`${whole}.bias`, shape)];
    return this.#make({ kind: "exact", isGemmOperand: false, shape, sources });
  }

  linear(names: readonly string[], rows: readonly number[], columns: number, hasBias: boolean): Linear<T> {
    const weight = this.matrix(names, rows, columns);
    if (!hasBias) return { weight, bias: undefined };
    return { weight, bias: this.vector(names.map((name, i) => [`${name}.bias`, rows[i] ?? 0])) };
  }

  vector(parts: readonly (readonly [name: string, length: number])[]): T {
    const shape = [parts.reduce((sum, [, length]) => sum + length, 0)] as const;
    return this.#make({
      kind: "exact",
      isGemmOperand: false,
      shape,
      sources: parts.map(([name, length]) => source(name, [length])),
    });
  }

  norm(name: string): Norm<T> {
    const shape = [this.config.hiddenSize] as const;
    const weight = this.#make({ kind: "exact", isGemmOperand: false, shape, sources: [this.#normSource(name, shape)] });
    return { weight, bias: this.config.norm.hasBias ? this.vector([[`${name}.bias`, shape[0]]]) : undefined };
  }

  /** The two norms of heads: those of one weight repeated for each head. */
  headNorms([queries, keys]: readonly [string, string], { numKvHeads, headDim }: LayerHeads): T {
    const { numHeads } = this.config;
    const sources = [
      ...this.#headNormSources(queries, numHeads, headDim),
      ...this.#headNormSources(keys, numKvHeads, headDim),
    ];
    return this.#make({ kind: "exact", isGemmOperand: false, shape: [numHeads + numKvHeads, headDim], sources });
  }

  #headNormSources(name: string, count: number, headDim: number): readonly WeightSource[] {
    const { headNorm } = this.config;
    if (headNorm?.scope === "row") return [this.#normSource(name, [count * headDim])];
    if (this.names.headNormWeights === "rows") return [this.#normSource(name, [count, headDim])];
    return Array.from({ length: count }, (_, head) => this.#normSource(name.replace("#", String(head)), [headDim]));
  }

  /** Queries, keys and values of one module whose rows are groups of them, by key heads. */
  groupedQkv(name: string, hasBias: boolean): Linear<T> {
    const { hiddenSize, numHeads, numKvHeads, headDim } = this.config;
    const count = (numHeads + 2 * numKvHeads) * headDim;
    const parts = groupedRuns(this.config);
    const of = (whole: WeightSource): readonly WeightSource[] => parts.map((rows) => ({ ...whole, rows }));
    const weight = this.#make({
      kind: "matrix",
      isGemmOperand: true,
      shape: [count, hiddenSize],
      sources: of(source(`${name}.weight`, [count, hiddenSize])),
    });
    if (!hasBias) return { weight, bias: undefined };
    const sources = of(source(`${name}.bias`, [count]));
    return { weight, bias: this.#make({ kind: "exact", isGemmOperand: false, shape: [count], sources }) };
  }

  /** Queries, keys, values, and the gates of outputs, whose rows follow those of each query head in its module. */
  gatedQkv([queries = "", ...others]: readonly string[], hasBias: boolean): Linear<T> {
    const { hiddenSize, numHeads, numKvHeads, headDim } = this.config;
    const heads = (first: number): readonly RowRun[] =>
      Array.from({ length: numHeads }, (_, i) => ({ first: (2 * i + first) * headDim, count: headDim }));
    const [width, kvWidth] = [2 * numHeads * headDim, numKvHeads * headDim];
    const parts = (suffix: string, rest: readonly number[]): readonly WeightSource[] => {
      const whole = source(`${queries}.${suffix}`, [width, ...rest]);
      const plain = others.map((name) => source(`${name}.${suffix}`, [kvWidth, ...rest]));
      return [{ ...whole, rows: heads(0) }, ...plain, { ...whole, rows: heads(1) }];
    };
    return this.rowsOf(
      [width + 2 * kvWidth, hiddenSize],
      parts("weight", [hiddenSize]),
      hasBias ? parts("bias", []) : [],
    );
  }

  /** A matrix and a bias of rows of modules; no sources: no bias. */
  rowsOf(
    shape: readonly [number, number],
    sources: readonly WeightSource[],
    biases: readonly WeightSource[] = [],
  ): Linear<T> {
    const weight = this.#make({ kind: "matrix", isGemmOperand: true, shape, sources });
    if (biases.length === 0) return { weight, bias: undefined };
    const bias = this.#make({ kind: "exact", isGemmOperand: false, shape: [shape[0]], sources: biases });
    return { weight, bias };
  }

  /** Rows of each head of the matrix of keys and values from the latent: a matrix for each head, perhaps transposed. */
  headRuns(name: string, { first, count }: RowRun, isTransposed: boolean): T {
    const { numHeads, latent } = this.config;
    const { keyRank = 0, nopeDims = 0, valueDims = 0 } = latent ?? {};
    const perHead = nopeDims + valueDims;
    const rows = Array.from({ length: numHeads }, (_, head) => ({ first: head * perHead + first, count }));
    const whole = source(`${name}.weight`, [numHeads * perHead, keyRank], isTransposed ? "transpose-runs" : "none");
    const shape = isTransposed ? ([numHeads, keyRank, count] as const) : ([numHeads, count, keyRank] as const);
    return this.#make({ kind: "matrix", isGemmOperand: false, shape, sources: [{ ...whole, rows }] });
  }

  /** A convolution over three rows as a matrix over all of them: the file's [outputs, inputs, 3] has the same order. */
  convolution(name: string, outputs: number, inputs: number): Linear<T> {
    const weight = source(`${name}.weight`, [outputs, inputs, 3]);
    return this.rowsOf([outputs, 3 * inputs], [weight], [source(`${name}.bias`, [outputs])]);
  }

  /** A tensor that is no module's, or whose file has another shape. */
  named(
    name: string,
    shape: readonly [number] | readonly [number, number],
    stored: readonly number[] = shape,
    change: WeightSource["change"] = "none",
  ): T {
    return this.#make({ kind: "exact", isGemmOperand: false, shape, sources: [source(name, stored, change)] });
  }

  #normSource(name: string, shape: readonly number[]): WeightSource {
    return source(`${name}.weight`, shape, this.config.norm.weightOffset === 1 ? "add-one" : "none");
  }

  #matrixSource(name: string, rows: number, columns: number): WeightSource {
    if (this.names.isTransposed === true) return source(`${name}.weight`, [columns, rows], "transpose");
    return source(`${name}.weight`, [rows, columns]);
  }
}

/** Rows of queries, of keys and of values in a module of [queries | key | value] for each key head. */
function groupedRuns({ numHeads, numKvHeads, headDim }: DecoderConfig): readonly (readonly RowRun[])[] {
  const perKey = (numHeads / numKvHeads) * headDim;
  const group = perKey + 2 * headDim;
  const runs = (from: number, count: number): readonly RowRun[] =>
    Array.from({ length: numKvHeads }, (_, i) => ({ first: i * group + from, count }));
  return [runs(0, perKey), runs(perKey, headDim), runs(perKey + headDim, headDim)];
}

export function source(name: string, shape: readonly number[], change: WeightSource["change"] = "none"): WeightSource {
  return { name, shape, change };
}

/** Matrices behind each other, each of which is transposed by itself: [count, rows, columns] on the device. */
function transposed(name: string, [count, rows, columns]: readonly [number, number, number]): WeightSource {
  const runs = Array.from({ length: count }, (_, i) => ({ first: i * columns, count: columns }));
  return { ...source(name, [count, columns, rows], "transpose-runs"), rows: runs };
}
