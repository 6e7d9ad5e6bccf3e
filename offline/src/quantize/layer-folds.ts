/**
 * Pairs of producers and consumers in a layer between which a factor can be moved (SmoothQuant, Xiao et al. 2022; AWQ).
 * Pure names and numbers, by the checkpoint layout.
 */
import type { LayoutModel, LayoutPart, LayoutTensor } from "@nereid/server/formats/trtllm/layout";
import type { LinearSite } from "./input-stats.ts";

export interface Fold {
  readonly site: LinearSite;
  /** Consumers: matrices that read the inputs. */
  readonly consumers: readonly LayoutTensor[];
  /** Producers: rows that yield the inputs, one each. Either a norm with its bias, or rows of a matrix and its bias. */
  readonly producers: readonly LayoutPart[];
  /** Producer row of each input; undefined: the same index. */
  readonly rowOfInput: Int32Array | undefined;
}

/** `tensors` of one layer, by name within the layer. */
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

/** Input norm of the MLP; undefined when shared with attention. */
function secondNormOf(tensors: ReadonlyMap<string, LayoutTensor>): string | undefined {
  return ["pre_feedforward_layernorm", "post_layernorm"].find((name) => tensors.has(`${name}.weight`));
}

/** Attention output is a weighted sum of values per head; grouped heads share a key-value head. */
function valueFold(model: LayoutModel, tensors: ReadonlyMap<string, LayoutTensor>): Fold {
  const { numHeads, numKvHeads, headDim } = model;
  const perKvHead = numHeads / numKvHeads;
  const rowOfInput = Int32Array.from({ length: numHeads * headDim }, (_, i) => {
    const head = Math.floor(i / headDim);
    return Math.floor(head / perKvHead) * headDim + (i % headDim);
  });
  return {
    site: "oProj",
    consumers: tensorsOf(tensors, "attention.dense.weight"),
    producers: partsAt(tensors, "attention.qkv", 2),
    rowOfInput,
  };
}

/** The up projection passes a factor through the gate product unchanged. */
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
