/**
 * Where in a layer a factor can change places: from the columns of matrices to what their inputs come out of. Pure names
 * and numbers, along the layout of a checkpoint.
 */
import type { LayoutModel, LayoutPart, LayoutTensor } from "@nereid/server/formats/trtllm/layout";
import type { LinearSite } from "./input-stats.ts";

export interface Fold {
  readonly site: LinearSite;
  /** Matrices that read the inputs. */
  readonly consumers: readonly LayoutTensor[];
  /** Rows that the inputs are, one each: a norm and its bias, rows of a matrix and of its bias. */
  readonly producers: readonly LayoutPart[];
  /** Which row of the producers each input is; undefined: the same number. */
  readonly rowOfInput: Int32Array | undefined;
}

/** `tensors`: of one layer, by their names behind that of the layer. */
export function layerFolds(model: LayoutModel, tensors: ReadonlyMap<string, LayoutTensor>): readonly Fold[] {
  const get = (name: string): LayoutTensor[] => [tensors.get(name)].filter((tensor) => tensor !== undefined);
  const hasExperts = tensors.has("mlp.router.weight");
  const opened = hasExperts ? [] : [...get("mlp.fc.weight"), ...get("mlp.gate.weight")];
  const qkv = get("attention.qkv.weight");
  const secondNorm = secondNormOf(tensors);
  const norm = (name: string): readonly LayoutPart[] =>
    [...get(`${name}.weight`), ...get(`${name}.bias`)].flatMap(({ parts }) => parts);
  const folds: Fold[] = [
    {
      site: "qkv",
      consumers: secondNorm === undefined ? [...qkv, ...opened] : qkv,
      producers: norm("input_layernorm"),
      rowOfInput: undefined,
    },
    valueFold(model, tensors),
  ];
  if (secondNorm !== undefined && opened.length > 0) {
    folds.push({ site: "mlpIn", consumers: opened, producers: norm(secondNorm), rowOfInput: undefined });
  }
  if (model.mlp.isGated && !hasExperts) folds.push(upFold(tensors));
  return folds;
}

/** Of what the MLP reads; undefined when that is what attention reads. */
function secondNormOf(tensors: ReadonlyMap<string, LayoutTensor>): string | undefined {
  return ["pre_feedforward_layernorm", "post_layernorm"].find((name) => tensors.has(`${name}.weight`));
}

/** What attention gives is sums of values, head by head; neighbours share those of one key-value head. */
function valueFold(model: LayoutModel, tensors: ReadonlyMap<string, LayoutTensor>): Fold {
  const { numHeads, numKvHeads, headDim } = model;
  const perKvHead = numHeads / numKvHeads;
  const rowOfInput = Int32Array.from({ length: numHeads * headDim }, (_, i) => {
    const head = Math.floor(i / headDim);
    return Math.floor(head / perKvHead) * headDim + (i % headDim);
  });
  return {
    site: "attentionOut",
    consumers: tensorsOf(tensors, "attention.dense.weight"),
    producers: partsAt(tensors, "attention.qkv", 2),
    rowOfInput,
  };
}

/** What the gate multiplies is a sum of its own, to which a factor passes through. */
function upFold(tensors: ReadonlyMap<string, LayoutTensor>): Fold {
  const producers = tensors.has("mlp.gate.weight") ? partsAt(tensors, "mlp.gate", 0) : partsAt(tensors, "mlp.fc", 0);
  return { site: "mlpOut", consumers: tensorsOf(tensors, "mlp.proj.weight"), producers, rowOfInput: undefined };
}

function tensorsOf(tensors: ReadonlyMap<string, LayoutTensor>, name: string): readonly LayoutTensor[] {
  const tensor = tensors.get(name);
  return tensor === undefined ? [] : [tensor];
}

function partsAt(tensors: ReadonlyMap<string, LayoutTensor>, module: string, index: number): readonly LayoutPart[] {
  return ["weight", "bias"].flatMap((kind) => tensors.get(`${module}.${kind}`)?.parts[index] ?? []);
}
