/**
 * Which tensors of the files make up which device tensor of a decoder. Projections that read the same rows are stacked
 * into one, which halves the GEMMs of a layer. Pure: it reads no file and knows no device.
 */
import type { CpuShape } from "../../device/cpu/cpu-tensor.ts";
import type { ExpertNames, WeightNames } from "../../formats/hf/weight-names.ts";
import type { DecoderConfig, LatentAttention } from "../config/decoder-config.ts";

/**
 * Kind of a tensor, which decides its type: some stay exact, and a vocabulary tolerates fewer bits less well than a
 * matrix.
 */
export type WeightKind = "exact" | "matrix" | "vocabulary";

/** One device tensor and the file tensors whose elements follow each other in it. */
export interface WeightPlan {
  readonly kind: WeightKind;
  /** Only multiplied with: its rows are never looked up, nor are its elements. */
  readonly isGemmOperand: boolean;
  readonly shape: CpuShape;
  readonly sources: readonly WeightSource[];
}

export interface WeightSource {
  readonly name: string;
  /** As the file has it. */
  readonly shape: readonly number[];
  /** Conversion of the elements while they are loaded. */
  readonly change: "none" | "transpose" | "add-one" | "unit-rows" | "transpose-runs";
  /** Runs of rows that are taken, in this order; absent: all. Elements of a vector are rows. */
  readonly rows?: readonly RowRun[] | undefined;
}

export interface RowRun {
  readonly first: number;
  readonly count: number;
}

export interface Linear<T> {
  readonly weight: T; // [outputs, inputs]
  readonly bias: T | undefined; // [outputs]
}

export interface Norm<T> {
  readonly weight: T; // [hidden]
  readonly bias: T | undefined; // [hidden]
}

export interface Mlp<T> {
  /** [2 * intermediate, hidden] gate rows, then up rows; [intermediate, hidden] without a gate. */
  readonly in: Linear<T>;
  readonly out: Linear<T>; // [hidden, intermediate]
}

export interface ExpertWeights<T> {
  readonly router: T; // [experts, hidden]
  readonly routerBias: T | undefined; // [experts]
  readonly correction: T | undefined; // [experts]
  readonly in: T; // [experts, 2 * intermediate, hidden]
  readonly inBias: T | undefined; // [experts, 2 * intermediate]
  readonly out: T; // [experts, hidden, intermediate]
  readonly outBias: T | undefined; // [experts, hidden]
  readonly shared: { readonly mlp: Mlp<T>; readonly gate: T | undefined } | undefined; // gate: [1, hidden]
}

/** Matrices of latent attention. */
export interface LatentWeights<T> {
  readonly queryNorm: T | undefined; // [queryRank]
  readonly queryUp: T | undefined; // [heads * (nopeDims + ropeDims), queryRank]
  readonly keyNorm: T; // [keyRank]
  readonly keyUp: T; // [heads, keyRank, nopeDims]
  readonly valueUp: T; // [heads, valueDims, keyRank]
}

export interface LayerWeights<T> {
  readonly attentionNorm: Norm<T> | undefined;
  readonly qkv: Linear<T>; // [(heads + 2 * kvHeads) * headDim, hidden]
  /** A row per query head, then per key head. */
  readonly headNorms: T | undefined; // [heads + kvHeads, headDim]
  readonly sinks: T | undefined; // [heads]
  readonly latent: LatentWeights<T> | undefined;
  readonly oProj: Linear<T>; // [hidden, heads * headDim]
  readonly attentionPostNorm: Norm<T> | undefined;
  readonly mlpNorm: Norm<T> | undefined;
  readonly mlp: Mlp<T> | ExpertWeights<T>;
  readonly mlpPostNorm: Norm<T> | undefined;
}

export interface ModelWeights<T> {
  readonly embedding: T; // [vocab, hidden]
  readonly embeddingNorm: Norm<T> | undefined;
  readonly positions: T | undefined; // [maxPositions, hidden]
  readonly layers: readonly LayerWeights<T>[];
  readonly norm: Norm<T>;
  /** Its weight is the embedding itself when the two are tied. */
  readonly output: Linear<T>; // [vocab, hidden]
}

/**
 * Describes a model, `make` standing for each device tensor: always the same ones in the same order. `copiesTiedOutput`:
 * an output tied to the embedding becomes a tensor of its own, for devices that lay matrices out for GEMMs.
 * `outputRows`: of an output of its own, where other devices have the others.
 */
export function describeWeights<T>(
  config: DecoderConfig,
  names: WeightNames,
  prefix: string,
  make: (plan: WeightPlan) => T,
  {
    copiesTiedOutput = false,
    outputRows = config.vocabSize,
  }: { readonly copiesTiedOutput?: boolean; readonly outputRows?: number | undefined } = {},
): ModelWeights<T> {
  const { vocabSize, maxPositions } = config;
  const plans = new Plans(config, names, make);
  const embedding = plans.table(`${prefix}${names.embedding}`, vocabSize);
  const output = [`${names.output}`] as const;
  const describeOutput = (): T => {
    if (!config.tieWordEmbeddings) return plans.output(names.output, outputRows);
    return copiesTiedOutput ? plans.table(`${prefix}${names.embedding}`, vocabSize, true) : embedding;
  };
  return {
    embedding,
    embeddingNorm: names.embeddingNorm === undefined ? undefined : plans.norm(`${prefix}${names.embeddingNorm}`),
    positions: names.positions === undefined ? undefined : plans.positions(`${prefix}${names.positions}`, maxPositions),
    layers: config.layers.map((_, i) => describeLayer(plans, i, prefix + names.layer.replace("#", String(i)))),
    norm: plans.norm(`${prefix}${names.norm}`),
    output: {
      weight: describeOutput(),
      bias: config.biases.output ? plans.vector(output.map((name) => [`${name}.bias`, outputRows])) : undefined,
    },
  };
}

/** The first prefix of an architecture under which `has` finds the embedding; the first of all when none does. */
export function findPrefix(names: WeightNames, has: (tensor: string) => boolean): string {
  const found = names.prefixes.find((prefix) => has(`${prefix}${names.embedding}.weight`));
  return found ?? names.prefixes[0] ?? "";
}

class Plans<T> {
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
      return this.#make({ kind: "matrix", isGemmOperand: true, shape, sources: [source(`${whole}.weight`, shape)] });
    }
    const sources = Array.from({ length: count }, (_, expert) =>
      names.map((name, i) => this.#matrixSource(name.replace("#", String(expert)), rows[i] ?? 0, columns)),
    );
    return this.#make({ kind: "matrix", isGemmOperand: true, shape, sources: sources.flat() });
  }

  /** A vector for each expert. */
  expertBiases(name: string, columns: number): T {
    const shape = [this.config.experts?.numExperts ?? 0, columns] as const;
    return this.#make({ kind: "exact", isGemmOperand: false, shape, sources: [source(`${name}.bias`, shape)] });
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
  headNorms([queries, keys]: readonly [string, string]): T {
    const { numHeads, numKvHeads, headDim } = this.config;
    const sources = [...this.#headNormSources(queries, numHeads), ...this.#headNormSources(keys, numKvHeads)];
    return this.#make({ kind: "exact", isGemmOperand: false, shape: [numHeads + numKvHeads, headDim], sources });
  }

  #headNormSources(name: string, count: number): readonly WeightSource[] {
    const { headDim, headNorm } = this.config;
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

  /** A tensor that is no module's. */
  named(name: string, shape: readonly [number]): T {
    return this.#make({ kind: "exact", isGemmOperand: false, shape, sources: [source(name, shape)] });
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

function source(name: string, shape: readonly number[], change: WeightSource["change"] = "none"): WeightSource {
  return { name, shape, change };
}

function describeLayer<T>(plans: Plans<T>, index: number, at: string): LayerWeights<T> {
  const { config, names } = plans;
  const { hiddenSize, numHeads, numKvHeads, headDim, biases } = config;
  const within = (name: string): string => at + name;
  const norm = (name: string | undefined): Norm<T> | undefined =>
    name === undefined ? undefined : plans.norm(at + name);
  const [queryWidth, kvWidth] = [numHeads * headDim, numKvHeads * headDim];
  const { latent } = config;
  const qkvRows = latent === undefined ? split(names.qkv, [queryWidth, kvWidth, kvWidth]) : latentRows(config, latent);
  const attendedWidth = latent === undefined ? queryWidth : numHeads * latent.valueDims;
  const { headNorms, sinks } = names;
  const [fused = ""] = names.qkv;
  const hasExperts = config.layers[index]?.mlp === "experts" && names.experts !== undefined;
  return {
    attentionNorm: norm(names.attentionNorm),
    qkv:
      names.hasGroupedQkv === true
        ? plans.groupedQkv(at + fused, biases.qkv)
        : plans.linear(names.qkv.map(within), qkvRows, hiddenSize, biases.qkv),
    latent: describeLatent(plans, at),
    headNorms:
      headNorms === undefined || config.headNorm === undefined
        ? undefined
        : plans.headNorms([at + headNorms[0], at + headNorms[1]]),
    sinks: sinks === undefined ? undefined : plans.named(at + sinks, [numHeads]),
    oProj: plans.linear([at + names.oProj], [hiddenSize], attendedWidth, biases.oProj),
    attentionPostNorm: norm(names.attentionPostNorm),
    mlpNorm: norm(names.mlpNorm),
    mlp: hasExperts
      ? describeExperts(plans, names.experts, at)
      : describeMlp(plans, names.mlpIn.map(within), at + names.mlpOut, config.mlp.intermediateSize),
    mlpPostNorm: norm(names.mlpPostNorm),
  };
}

function latentRows({ numHeads }: DecoderConfig, latent: LatentAttention): readonly number[] {
  const { queryRank, keyRank, nopeDims, ropeDims } = latent;
  return [queryRank ?? numHeads * (nopeDims + ropeDims), keyRank + ropeDims];
}

function describeLatent<T>(plans: Plans<T>, at: string): LatentWeights<T> | undefined {
  const { config, names } = plans;
  const { latent, numHeads } = config;
  if (latent === undefined || names.latent === undefined) return undefined;
  const { queryRank, keyRank, nopeDims, ropeDims, valueDims } = latent;
  const { queryNorm, queryUp, keyNorm, keyValueUp } = names.latent;
  const queryRows = numHeads * (nopeDims + ropeDims);
  return {
    queryNorm: queryRank === undefined ? undefined : plans.vector([[`${at}${queryNorm}.weight`, queryRank]]),
    queryUp: queryRank === undefined ? undefined : plans.matrix([at + queryUp], [queryRows], queryRank),
    keyNorm: plans.vector([[`${at}${keyNorm}.weight`, keyRank]]),
    keyUp: plans.headRuns(at + keyValueUp, { first: 0, count: nopeDims }, true),
    valueUp: plans.headRuns(at + keyValueUp, { first: nopeDims, count: valueDims }, false),
  };
}

function describeMlp<T>(plans: Plans<T>, mlpIn: readonly string[], mlpOut: string, width: number): Mlp<T> {
  const { hiddenSize, biases, mlp } = plans.config;
  return {
    in: plans.linear(mlpIn, split(mlpIn, mlp.isGated ? [width, width] : [width]), hiddenSize, biases.mlp),
    out: plans.linear([mlpOut], [hiddenSize], width, biases.mlp),
  };
}

function describeExperts<T>(plans: Plans<T>, names: ExpertNames, at: string): ExpertWeights<T> {
  const { config } = plans;
  const { hiddenSize, experts } = config;
  const width = experts?.intermediateSize ?? 0;
  const within = (name: string): string => at + name;
  const { sharedIn, sharedOut, sharedGate, correction, hasBias = false } = names;
  const [numExperts, sharedWidth] = [experts?.numExperts ?? 0, experts?.sharedIntermediateSize ?? 0];
  const [firstIn = ""] = names.mlpIn;
  return {
    // A choice between experts should not change with the type of the matrices.
    router: plans.matrix([at + names.router], [numExperts], hiddenSize, "exact"),
    routerBias: names.hasRouterBias === true ? plans.vector([[`${at}${names.router}.bias`, numExperts]]) : undefined,
    correction:
      correction === undefined || experts?.routing?.hasCorrection !== true
        ? undefined
        : plans.named(at + correction, [numExperts]),
    in: plans.experts(names.mlpIn.map(within), split(names.mlpIn, [width, width]), hiddenSize),
    inBias: hasBias ? plans.expertBiases(at + firstIn, 2 * width) : undefined,
    out: plans.experts([at + names.mlpOut], [hiddenSize], width),
    outBias: hasBias ? plans.expertBiases(at + names.mlpOut, hiddenSize) : undefined,
    shared:
      sharedIn !== undefined && sharedOut !== undefined && sharedWidth > 0
        ? {
            mlp: describeMlp(plans, sharedIn.map(within), at + sharedOut, sharedWidth),
            gate: sharedGate === undefined ? undefined : plans.matrix([at + sharedGate], [1], hiddenSize, "exact"),
          }
        : undefined,
  };
}

/** Rows of each module: as many parts as there are names, or all in one. */
function split(names: readonly string[], parts: readonly number[]): readonly number[] {
  return names.length === parts.length ? parts : [parts.reduce((sum, rows) => sum + rows, 0)];
}
