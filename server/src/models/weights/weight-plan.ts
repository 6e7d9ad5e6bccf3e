/**
 * Which tensors of the files make up which device tensor of a decoder. Projections that read the same rows are stacked
 * into one, which halves the GEMMs of a layer. Pure: it reads no file and knows no device.
 */
import type { CpuShape } from "../../device/cpu/cpu-tensor.ts";
import type { ExpertNames, WeightNames } from "../../formats/hf/weight-names.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";

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
  readonly change: "none" | "transpose" | "add-one";
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
  readonly in: T; // [experts, 2 * intermediate, hidden]
  readonly out: T; // [experts, hidden, intermediate]
  readonly shared: { readonly mlp: Mlp<T>; readonly gate: T } | undefined; // gate: [1, hidden]
}

export interface LayerWeights<T> {
  readonly attentionNorm: Norm<T>;
  readonly qkv: Linear<T>; // [(heads + 2 * kvHeads) * headDim, hidden]
  /** A row per query head, then per key head. */
  readonly headNorms: T | undefined; // [heads + kvHeads, headDim]
  readonly oProj: Linear<T>; // [hidden, heads * headDim]
  readonly attentionPostNorm: Norm<T> | undefined;
  readonly mlpNorm: Norm<T> | undefined;
  readonly mlp: Mlp<T> | ExpertWeights<T>;
  readonly mlpPostNorm: Norm<T> | undefined;
}

export interface ModelWeights<T> {
  readonly embedding: T; // [vocab, hidden]
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
  const { hiddenSize, vocabSize, maxPositions } = config;
  const plans = new Plans(config, names, make);
  const embedding = plans.table(`${prefix}${names.embedding}`, vocabSize);
  const output = [`${names.output}`] as const;
  const describeOutput = (): T => {
    if (!config.tieWordEmbeddings) return plans.matrix(output, [outputRows], hiddenSize, "vocabulary");
    return copiesTiedOutput ? plans.table(`${prefix}${names.embedding}`, vocabSize, true) : embedding;
  };
  return {
    embedding,
    positions: names.positions === undefined ? undefined : plans.table(`${prefix}${names.positions}`, maxPositions),
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
    const sources = Array.from({ length: count }, (_, expert) =>
      names.map((name, i) => this.#matrixSource(name.replace("#", String(expert)), rows[i] ?? 0, columns)),
    );
    return this.#make({ kind: "matrix", isGemmOperand: true, shape, sources: sources.flat() });
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
    return { weight, bias: this.config.norm.kind === "layer" ? this.vector([[`${name}.bias`, shape[0]]]) : undefined };
  }

  /** The two norms of heads, repeated for each head. */
  headNorms([queries, keys]: readonly [string, string]): T {
    const { numHeads, numKvHeads, headDim } = this.config;
    const repeat = (name: string, count: number): readonly WeightSource[] =>
      Array.from({ length: count }, () => this.#normSource(name, [headDim]));
    const sources = [...repeat(queries, numHeads), ...repeat(keys, numKvHeads)];
    return this.#make({ kind: "exact", isGemmOperand: false, shape: [numHeads + numKvHeads, headDim], sources });
  }

  #normSource(name: string, shape: readonly number[]): WeightSource {
    return source(`${name}.weight`, shape, this.config.norm.weightOffset === 1 ? "add-one" : "none");
  }

  #matrixSource(name: string, rows: number, columns: number): WeightSource {
    if (this.names.isTransposed === true) return source(`${name}.weight`, [columns, rows], "transpose");
    return source(`${name}.weight`, [rows, columns]);
  }
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
  const qkvRows = split(names.qkv, [queryWidth, kvWidth, kvWidth]);
  const { headNorms } = names;
  const hasExperts = config.layers[index]?.mlp === "experts" && names.experts !== undefined;
  return {
    attentionNorm: plans.norm(at + names.attentionNorm),
    qkv: plans.linear(names.qkv.map(within), qkvRows, hiddenSize, biases.qkv),
    headNorms: headNorms === undefined ? undefined : plans.headNorms([at + headNorms[0], at + headNorms[1]]),
    oProj: plans.linear([at + names.oProj], [hiddenSize], queryWidth, biases.oProj),
    attentionPostNorm: norm(names.attentionPostNorm),
    mlpNorm: norm(names.mlpNorm),
    mlp: hasExperts
      ? describeExperts(plans, names.experts, at)
      : describeMlp(plans, names.mlpIn.map(within), at + names.mlpOut, config.mlp.intermediateSize),
    mlpPostNorm: norm(names.mlpPostNorm),
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
  const { sharedIn, sharedOut, sharedGate } = names;
  const hasShared = sharedIn !== undefined && sharedOut !== undefined && sharedGate !== undefined;
  return {
    // A choice between experts should not change with the type of the matrices.
    router: plans.matrix([at + names.router], [experts?.numExperts ?? 0], hiddenSize, "exact"),
    in: plans.experts(names.mlpIn.map(within), split(names.mlpIn, [width, width]), hiddenSize),
    out: plans.experts([at + names.mlpOut], [hiddenSize], width),
    shared: hasShared
      ? {
          mlp: describeMlp(plans, sharedIn.map(within), at + sharedOut, experts?.sharedIntermediateSize ?? 0),
          gate: plans.matrix([at + sharedGate], [1], hiddenSize, "exact"),
        }
      : undefined,
  };
}

/** Rows of each module: as many parts as there are names, or all in one. */
function split(names: readonly string[], parts: readonly number[]): readonly number[] {
  return names.length === parts.length ? parts : [parts.reduce((sum, rows) => sum + rows, 0)];
}
