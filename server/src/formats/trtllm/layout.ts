/**
 * Sharding of a decoder in TensorRT-LLM checkpoints: which rank tensor holds which rows of which Hugging Face tensors.
 * Source: TensorRT-LLM documentation, "TensorRT-LLM Checkpoint". Readers and writers share it. Pure names and numbers.
 */
import type { ExpertNames, WeightNames } from "../hf/weight-names.ts";

/** Traits that determine the layout; a decoder description has all of them. */
export interface LayoutModel {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly maxPositions: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly layers: readonly { readonly mlp: "dense" | "experts" }[];
  readonly norm: { readonly kind: "rms" | "layer"; readonly weightOffset: 0 | 1 };
  readonly mlp: { readonly isGated: boolean; readonly intermediateSize: number };
  readonly experts:
    | {
        readonly numExperts: number;
        readonly intermediateSize: number;
        readonly sharedIntermediateSize: number;
      }
    | undefined;
  readonly biases: Readonly<Record<"qkv" | "oProj" | "mlp" | "output", boolean>>;
  readonly tieWordEmbeddings: boolean;
}

export interface LayoutMapping {
  readonly tpSize: number;
  readonly ppSize: number;
  /** Dimension of the embedding that is sharded over tensor-parallel ranks. */
  readonly embeddingSplit: "none" | "vocab" | "hidden";
}

/** Rows of a Hugging Face tensor, counted as outputs even when the file is transposed. */
export interface LayoutPart {
  readonly name: string;
  /** Name in the file. */
  readonly shape: readonly number[];
  readonly firstRow: number;
  readonly numRows: number;
  /** Sharding granularity in rows: heads. Neighbouring ranks share one when there are fewer heads than ranks. */
  readonly numUnits: number;
}

/** "linear" may be quantized, "matrix" is not, "list" is a vector. */
export type LayoutKind = "linear" | "router" | "gate" | "vocabulary" | "vector";

export interface LayoutTensor {
  /** Name in the file of a rank. */
  readonly name: string;
  readonly kind: LayoutKind;
  readonly split: "whole" | "rows" | "columns";
  /** Concatenated in this order along the rows. */
  readonly parts: readonly LayoutPart[];
  /** Undefined for a list. */
  readonly columns: number | undefined;
  /** The first dimension, over which rows are distributed evenly; undefined for tensors with rows only. */
  readonly numExperts: number | undefined;
  /** The Hugging Face file is [inputs, outputs]. */
  readonly isTransposed: boolean;
  /** The checkpoint stores 1 + weight (Gemma norms). */
  readonly addsOne: boolean;
}

/** Rows of a part that one rank holds. */
export interface PartSlice {
  readonly part: LayoutPart;
  /** Within the Hugging Face tensor. */
  readonly sourceRow: number;
  readonly numRows: number;
  /** An earlier rank holds the same rows. */
  readonly isCopy: boolean;
}

/** Tensors of the ranks of a pipeline stage; layers are counted from the stage's first. */
export function stageTensors(
  model: LayoutModel,
  names: WeightNames,
  prefix: string,
  mapping: LayoutMapping,
  stage: number,
): readonly LayoutTensor[] {
  const layout = new Layout(model, names, prefix);
  const perStage = model.layers.length / mapping.ppSize;
  const layers = Array.from({ length: perStage }, (_, i) => layout.layer(stage * perStage + i, i));
  return [
    ...(stage === 0 ? layout.entrance(mapping) : []),
    ...layers.flat(),
    ...(stage === mapping.ppSize - 1 ? layout.exit() : []),
  ];
}

/** Slice of each part that the rank holds, from its first row on. */
export function rankSlices(tensor: LayoutTensor, rank: number, tpSize: number): readonly PartSlice[] {
  return tensor.parts.map((part) => (tensor.split === "rows" ? sliceOf(part, rank, tpSize) : wholeOf(part)));
}

/** Columns of each rank, and the first of them. */
export function rankColumns(
  { split, columns = 1 }: LayoutTensor,
  rank: number,
  tpSize: number,
): { readonly first: number; readonly count: number } {
  if (split !== "columns") return { first: 0, count: columns };
  return { first: (columns / tpSize) * rank, count: columns / tpSize };
}

/** Shape in the rank's file; vocabulary rows are padded to an equal number per rank. */
export function rankShape(tensor: LayoutTensor, rank: number, tpSize: number): readonly number[] {
  const rows =
    tensor.kind === "vocabulary" && tensor.split === "rows"
      ? paddedRows(tensor, tpSize)
      : rankSlices(tensor, rank, tpSize).reduce((sum, { numRows }) => sum + numRows, 0);
  if (tensor.columns === undefined) return [rows];
  const { count } = rankColumns(tensor, rank, tpSize);
  return tensor.numExperts === undefined ? [rows, count] : [tensor.numExperts, rows / tensor.numExperts, count];
}

function paddedRows({ parts }: LayoutTensor, tpSize: number): number {
  return Math.ceil((parts[0]?.numRows ?? 0) / tpSize);
}

function wholeOf(part: LayoutPart): PartSlice {
  return { part, sourceRow: part.firstRow, numRows: part.numRows, isCopy: false };
}

function sliceOf(part: LayoutPart, rank: number, tpSize: number): PartSlice {
  const { firstRow, numRows, numUnits } = part;
  if (numUnits === 0) {
    // A vocabulary: an equal number of rows per rank; the last ranks may have fewer or none.
    const perRank = Math.ceil(numRows / tpSize);
    const from = Math.min(numRows, rank * perRank);
    const count = Math.min(perRank, numRows - from);
    return { part, sourceRow: firstRow + from, numRows: count, isCopy: false };
  }
  const perUnit = numRows / numUnits;
  if (numUnits >= tpSize) {
    const count = numRows / tpSize;
    return { part, sourceRow: firstRow + rank * count, numRows: count, isCopy: false };
  }
  const ranksPerUnit = tpSize / numUnits;
  const unit = Math.floor(rank / ranksPerUnit);
  return { part, sourceRow: firstRow + unit * perUnit, numRows: perUnit, isCopy: rank % ranksPerUnit !== 0 };
}

interface ModuleRows {
  readonly name: string;
  /** Shape of the whole module in the file. */
  readonly fileRows: number;
  readonly firstRow: number;
  readonly numRows: number;
  readonly numUnits: number;
}

class Layout {
  readonly #model: LayoutModel;
  readonly #names: WeightNames;
  readonly #prefix: string;

  constructor(model: LayoutModel, names: WeightNames, prefix: string) {
    this.#model = model;
    this.#names = names;
    this.#prefix = prefix;
  }

  entrance({ embeddingSplit }: LayoutMapping): readonly LayoutTensor[] {
    const { vocabSize, maxPositions } = this.#model;
    const { embedding, positions } = this.#names;
    const splits = { none: "whole", vocab: "rows", hidden: "columns" } as const;
    const split = splits[embeddingSplit];
    const table = this.#table("transformer.vocab_embedding", `${this.#prefix}${embedding}`, vocabSize, split);
    if (positions === undefined) return [table];
    return [table, this.#table("transformer.position_embedding", `${this.#prefix}${positions}`, maxPositions, "whole")];
  }

  exit(): readonly LayoutTensor[] {
    const { vocabSize, tieWordEmbeddings, biases } = this.#model;
    const { output } = this.#names;
    const norm = this.#norm("transformer.ln_f", this.#prefix + this.#names.norm);
    const table = tieWordEmbeddings ? [] : [this.#table("lm_head", output, vocabSize, "rows")];
    const bias = { name: `${output}.bias`, shape: [vocabSize], firstRow: 0, numRows: vocabSize, numUnits: 0 };
    const vector = { ...VECTOR, name: "lm_head.bias", kind: "vocabulary", split: "rows", parts: [bias] } as const;
    return [...norm, ...table, ...(biases.output ? [vector] : [])];
  }

  layer(index: number, local: number): readonly LayoutTensor[] {
    const names = this.#names;
    const to = `transformer.layers.${local}.`;
    const from = this.#prefix + names.layer.replace("#", String(index));
    const norm = (name: string, module: string | undefined): readonly LayoutTensor[] =>
      module === undefined ? [] : this.#norm(to + name, from + module);
    const hasExperts = this.#model.layers[index]?.mlp === "experts" && names.experts !== undefined;
    // With four norms, the second one normalises the attention output.
    const isSandwich = names.attentionPostNorm !== undefined;
    return [
      ...norm("input_layernorm", names.attentionNorm),
      ...this.#attention(to, from),
      ...norm("post_layernorm", isSandwich ? names.attentionPostNorm : names.mlpNorm),
      ...norm("pre_feedforward_layernorm", isSandwich ? names.mlpNorm : undefined),
      ...norm("post_feedforward_layernorm", names.mlpPostNorm),
      ...(hasExperts ? this.#experts(`${to}mlp.`, from, names.experts) : this.#denseMlp(`${to}mlp.`, from)),
    ];
  }

  #attention(to: string, from: string): readonly LayoutTensor[] {
    const { numHeads, numKvHeads, headDim, hiddenSize, biases } = this.#model;
    const { qkv, oProj, headNorms } = this.#names;
    const widths = [numHeads, numKvHeads, numKvHeads] as const;
    const total = (numHeads + 2 * numKvHeads) * headDim;
    let stacked = 0;
    const rows = widths.map((units, i): ModuleRows => {
      const numRows = units * headDim;
      const single = qkv[i];
      const place =
        qkv.length === 3 && single !== undefined
          ? { name: from + single, fileRows: numRows, firstRow: 0 }
          : { name: from + qkv[0], fileRows: total, firstRow: stacked };
      stacked += numRows;
      return { ...place, numRows, numUnits: units };
    });
    const out = this.#whole(from + oProj, hiddenSize);
    return [
      ...this.#linear(`${to}attention.qkv`, "rows", rows, hiddenSize, biases.qkv),
      ...this.#linear(`${to}attention.dense`, "columns", [out], numHeads * headDim, biases.oProj),
      ...(headNorms === undefined ? [] : this.#headNorms(to, from, headNorms)),
    ];
  }

  #headNorms(to: string, from: string, [queries, keys]: readonly [string, string]): readonly LayoutTensor[] {
    const { headDim } = this.#model;
    return [
      ...this.#vectors(`${to}attention.q_layernorm`, from + queries, headDim),
      ...this.#vectors(`${to}attention.k_layernorm`, from + keys, headDim),
    ];
  }

  #denseMlp(to: string, from: string): readonly LayoutTensor[] {
    const { mlp, hiddenSize, biases } = this.#model;
    const { mlpIn, mlpOut } = this.#names;
    const width = mlp.intermediateSize;
    const opened = this.#opened(
      mlpIn.map((name) => from + name),
      width,
    );
    const isApart = mlp.isGated && mlpIn.length === 2;
    const [gate, up] = opened;
    const ins =
      isApart && gate !== undefined && up !== undefined
        ? [
            ...this.#linear(`${to}fc`, "rows", [gate], hiddenSize, biases.mlp),
            ...this.#linear(`${to}gate`, "rows", [up], hiddenSize, biases.mlp),
          ]
        : this.#linear(`${to}fc`, "rows", [...opened].reverse(), hiddenSize, biases.mlp);
    const out = this.#whole(from + mlpOut, hiddenSize);
    return [...ins, ...this.#linear(`${to}proj`, "columns", [out], width, biases.mlp)];
  }

  /** Rows of the gate, then of the up projection. One module when there is no gate or when it holds both. */
  #opened(modules: readonly string[], width: number): readonly ModuleRows[] {
    const [first = "", second] = modules;
    if (!this.#model.mlp.isGated) return [this.#whole(first, width)];
    const units = { numRows: width, numUnits: width };
    if (second !== undefined) return modules.map((name) => ({ ...units, name, fileRows: width, firstRow: 0 }));
    return [0, width].map((firstRow) => ({ ...units, name: first, fileRows: 2 * width, firstRow }));
  }

  /** Rows of each expert: the up projection, then the gate. */
  #experts(to: string, from: string, names: ExpertNames): readonly LayoutTensor[] {
    const { hiddenSize, experts } = this.#model;
    const { numExperts = 0, intermediateSize: width = 0, sharedIntermediateSize: sharedWidth = 0 } = experts ?? {};
    const each = <T>(make: (expert: string) => readonly T[]): T[] =>
      Array.from({ length: numExperts }, (_, i) => make(String(i))).flat();
    const within = (name: string, expert: string): string => from + name.replace("#", expert);
    const ins = each((expert) =>
      [
        ...this.#opened(
          names.mlpIn.map((name) => within(name, expert)),
          width,
        ),
      ].reverse(),
    );
    const outs = each((expert) => [this.#whole(within(names.mlpOut, expert), hiddenSize)]);
    const { sharedIn, sharedOut, sharedGate } = names;
    const shared =
      sharedIn === undefined || sharedOut === undefined || sharedGate === undefined
        ? []
        : [
            ...this.#linear(
              `${to}shared_expert.fc`,
              "rows",
              [
                ...this.#opened(
                  sharedIn.map((name) => from + name),
                  sharedWidth,
                ),
              ].reverse(),
              hiddenSize,
              false,
            ),
            ...this.#linear(
              `${to}shared_expert.proj`,
              "columns",
              [this.#whole(from + sharedOut, hiddenSize)],
              sharedWidth,
              false,
            ),
            this.#router(`${to}shared_expert_gate`, from + sharedGate, 1, "gate"),
          ];
    return [
      this.#router(`${to}router`, from + names.router, numExperts),
      ...this.#linear(`${to}fc`, "rows", ins, hiddenSize, false, numExperts),
      ...this.#linear(`${to}proj`, "columns", outs, width, false, numExperts),
      ...shared,
    ];
  }

  #whole(name: string, rows: number): ModuleRows {
    return { name, fileRows: rows, firstRow: 0, numRows: rows, numUnits: rows };
  }

  #linear(
    to: string,
    split: "rows" | "columns",
    modules: readonly ModuleRows[],
    columns: number,
    hasBias: boolean,
    numExperts?: number,
  ): readonly LayoutTensor[] {
    const isTransposed = this.#names.isTransposed === true;
    const partOf = (kind: "weight" | "bias") => (module: ModuleRows) => {
      const { fileRows, firstRow, numRows, numUnits } = module;
      const matrix = isTransposed ? [columns, fileRows] : [fileRows, columns];
      const shape = kind === "bias" ? [fileRows] : matrix;
      return { name: `${module.name}.${kind}`, shape, firstRow, numRows, numUnits };
    };
    const weight = {
      name: `${to}.weight`,
      kind: "linear",
      split,
      parts: modules.map(partOf("weight")),
      columns,
      numExperts,
      isTransposed,
      addsOne: false,
    } as const;
    if (!hasBias) return [weight];
    // Row-parallel layers add the bias once, after the all-reduce, so each rank holds it whole.
    const biasSplit = split === "rows" ? "rows" : "whole";
    return [weight, { ...VECTOR, name: `${to}.bias`, split: biasSplit, parts: modules.map(partOf("bias")) }];
  }

  #router(to: string, from: string, rows: number, kind: "router" | "gate" = "router"): LayoutTensor {
    const columns = this.#model.hiddenSize;
    const part = { name: `${from}.weight`, shape: [rows, columns], firstRow: 0, numRows: rows, numUnits: rows };
    return { ...VECTOR, name: `${to}.weight`, kind, parts: [part], columns };
  }

  #table(to: string, from: string, rows: number, split: LayoutTensor["split"]): LayoutTensor {
    const columns = this.#model.hiddenSize;
    const part = { name: `${from}.weight`, shape: [rows, columns], firstRow: 0, numRows: rows, numUnits: 0 };
    return { ...VECTOR, name: `${to}.weight`, kind: "vocabulary", split, parts: [part], columns };
  }

  #norm(to: string, from: string): readonly LayoutTensor[] {
    const weights = this.#vectors(to, from, this.#model.hiddenSize);
    if (this.#model.norm.kind === "rms") return weights;
    return [...weights, this.#vector(`${to}.bias`, `${from}.bias`, this.#model.hiddenSize)];
  }

  #vectors(to: string, from: string, length: number): readonly LayoutTensor[] {
    const addsOne = this.#model.norm.weightOffset === 1;
    return [{ ...this.#vector(`${to}.weight`, `${from}.weight`, length), addsOne }];
  }

  #vector(name: string, from: string, length: number): LayoutTensor {
    const part = { name: from, shape: [length], firstRow: 0, numRows: length, numUnits: length };
    return { ...VECTOR, name, parts: [part] };
  }
}

const VECTOR = {
  kind: "vector",
  split: "whole",
  columns: undefined,
  numExperts: undefined,
  isTransposed: false,
  addsOne: false,
} as const;
