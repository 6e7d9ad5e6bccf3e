/**
 * Rows of each token for every layer, and experts beside an MLP, as lists of ops. Source: transformers, modeling_gemma4.py and
 * modeling_gemma3n.py.
 */
import { recordAdd } from "../../../kernels/add/add.ggml.ts";
import { recordGatherRows } from "../../../kernels/gather-rows/gather-rows.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { recordRmsNorm } from "../../../kernels/rms-norm/rms-norm.ggml.ts";
import { recordScale } from "../../../kernels/scale/scale.ggml.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderModel } from "./decoder-model.ts";
import { recordActivation, recordExperts } from "./mlp.ts";

/** Graph tensors of `recordLayerInputs()` and `recordBeside()` in a layer beside those of experts, at most. */
export const LAYER_INPUT_TENSORS = 48;

/** [numTokens, layers * width] of the tokens and of the first rows of the residual stream; undefined: the model has none. */
export function recordPerLayerInputs(
  graph: CpuGraph,
  { config, weights: { perLayer } }: DecoderModel,
  tokenIds: Int32Array,
  x: CpuTensor,
): CpuTensor | undefined {
  const { perLayerInputs: inputs, numLayers, hiddenSize, norm } = config;
  if (inputs === undefined || perLayer === undefined) return undefined;
  const { base } = graph.ggml;
  const [numTokens = 0] = x.shape;
  // Tokens of images are none of the table.
  const own = tokenIds.map((id) => (id < inputs.vocabSize ? id : 0));
  const ids = graph.input("i32", [numTokens], own);
  const looked = recordScale(graph, {
    x: recordGatherRows(graph, { table: perLayer.table, ids }),
    factor: inputs.tableScale,
  });
  const projected = recordScale(graph, {
    x: recordLinear(graph, { x, ...perLayer.projection }),
    factor: hiddenSize ** -0.5,
  });
  const rows = numTokens * numLayers;
  const parts: CpuTensor = {
    handle: base.reshape2d(graph.claim(), projected.handle, inputs.width, rows),
    type: "f32",
    shape: [rows, inputs.width],
  };
  const { handle: normed } = recordRmsNorm(graph, { x: parts, weight: perLayer.norm, epsilon: norm.epsilon });
  const width = numLayers * inputs.width;
  const flat: CpuTensor = { ...looked, handle: base.reshape2d(graph.claim(), normed, width, numTokens) };
  return recordScale(graph, { x: recordAdd(graph, { a: flat, b: looked }), factor: Math.SQRT1_2 });
}

/** The part that the inputs of a layer add to the residual stream: the rows of `x` gate them. [numTokens, hidden] */
export function recordLayerInputs(
  graph: CpuGraph,
  { config, weights }: DecoderModel,
  index: number,
  x: CpuTensor,
  inputs: CpuTensor,
): CpuTensor {
  const { perLayer } = expectAt(weights.layers, index);
  const { perLayerInputs, mlp, norm } = config;
  if (perLayer === undefined || perLayerInputs === undefined)
    throw new Error(`layer ${index} has no inputs of its own`);
  const { base } = graph.ggml;
  const gate = recordActivation(
    graph,
    { ...config, mlp: { ...mlp, isGated: false } },
    recordLinear(graph, { x, ...perLayer.gate }),
  );
  const [numTokens = 0, rowWidth = 0] = inputs.shape;
  const { width } = perLayerInputs;
  const own = base.view2d(graph.claim(), inputs.handle, width, numTokens, rowWidth * 4, index * width * 4);
  const gated = { ...gate, handle: base.mul(graph.claim(), gate.handle, base.cont(graph.claim(), own)) };
  const out = recordLinear(graph, { x: gated, ...perLayer.out });
  return recordRmsNorm(graph, { x: out, weight: perLayer.norm.weight, epsilon: norm.epsilon });
}

/** The branch of a dense MLP and of the experts beside it; `residual`: the rows in front of both. [numTokens, hidden] */
export function recordBeside(
  graph: CpuGraph,
  { config, weights }: DecoderModel,
  index: number,
  { residual, dense }: { readonly residual: CpuTensor; readonly dense: CpuTensor },
): CpuTensor {
  const { beside } = expectAt(weights.layers, index);
  if (beside === undefined) return dense;
  const { epsilon } = config.norm;
  const normed = (x: CpuTensor, { weight }: { readonly weight: CpuTensor }): CpuTensor =>
    recordRmsNorm(graph, { x, weight, epsilon });
  const routed = recordScale(graph, { x: normed(residual, beside.routerNorm), factor: config.hiddenSize ** -0.5 });
  const { outScale } = beside;
  const mixed = recordExperts(graph, config, beside.experts, normed(residual, beside.norm), { routed, outScale });
  return recordAdd(graph, { a: normed(dense, beside.denseNorm), b: normed(mixed, beside.outNorm) });
}
