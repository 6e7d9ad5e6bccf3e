/** The activation of an MLP, and a mixture of experts, as lists of ops. */
import { recordAdd } from "../../../kernels/add/add.ggml.ts";
import { recordClampedSwiglu } from "../../../kernels/clamped-swiglu/clamped-swiglu.ggml.ts";
import { recordExpertLinear } from "../../../kernels/expert-linear/expert-linear.ggml.ts";
import { recordGateRows } from "../../../kernels/gate-rows/gate-rows.ggml.ts";
import { recordGelu } from "../../../kernels/gelu/gelu.ggml.ts";
import { recordGeluMul } from "../../../kernels/gelu-mul/gelu-mul.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { recordMixExperts } from "../../../kernels/mix-experts/mix-experts.ggml.ts";
import { recordRelu } from "../../../kernels/relu/relu.ggml.ts";
import { recordRouteExperts } from "../../../kernels/route-experts/route-experts.ggml.ts";
import { recordSiluMul } from "../../../kernels/silu-mul/silu-mul.ggml.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { ExpertWeights, Mlp } from "../weights/weight-plan.ts";

/** Without a gate [numRows, width] as `x`; with one, half as wide: rows of `x` are [gate | up]. */
export function recordActivation(graph: CpuGraph, { mlp }: DecoderConfig, x: CpuTensor): CpuTensor {
  const { activation, isGated, clamp } = mlp;
  switch (activation) {
    case "silu":
      if (isGated) return recordSiluMul(graph, { gateUp: x });
      break;
    case "gelu-tanh":
    case "gelu-erf": {
      const form = activation === "gelu-tanh" ? "tanh" : "erf";
      return isGated ? recordGeluMul(graph, { gateUp: x, form }) : recordGelu(graph, { x, form });
    }
    case "relu":
    case "relu2":
      if (!isGated) return recordRelu(graph, { x, isSquared: activation === "relu2" });
      break;
    case "xielu":
      break;
    case "swiglu-clamped":
      if (isGated && clamp !== undefined) return recordClampedSwiglu(graph, { gateUp: x, ...clamp });
      break;
  }
  throw new Error(`${activation} ${isGated ? "with" : "without"} a gate: no architecture has it`);
}

/** [numRows, hidden] */
export function recordExperts(
  graph: CpuGraph,
  config: DecoderConfig,
  weights: ExpertWeights<CpuTensor>,
  x: CpuTensor,
  /** Rows that the router reads, and factors of the shares of experts, where they are others. */
  { routed = x, outScale }: { readonly routed?: CpuTensor; readonly outScale?: CpuTensor } = {},
): CpuTensor {
  const { experts } = config;
  if (experts === undefined) throw new Error("a layer has experts that its model does not describe");
  const logits = recordLinear(graph, { x: routed, weight: weights.router, bias: weights.routerBias });
  const { correction } = weights;
  const { ids, weights: shares } = recordRouteExperts(graph, { logits, ...experts, correction, outScale });
  const opened = recordExpertLinear(graph, { x, weight: weights.in, ids, bias: weights.inBias });
  const scalesInputs = experts.routing?.scalesInputs === true;
  const inner = scalesInputs ? recordScaledRows(graph, opened, shares) : opened;
  const active = recordActivation(graph, config, inner);
  const closed = recordExpertLinear(graph, { x: active, weight: weights.out, ids, bias: weights.outBias });
  const mixed = recordMixExperts(graph, { x: closed, weights: scalesInputs ? recordOnes(graph, shares) : shares });
  if (weights.shared === undefined) return mixed;
  const { gate, mlp } = weights.shared;
  const dense = recordDense(graph, config, mlp, x);
  if (gate === undefined) return recordAdd(graph, { a: mixed, b: dense });
  const shared = recordGateRows(graph, { x: dense, gate: recordLinear(graph, { x, weight: gate }) });
  return recordAdd(graph, { a: mixed, b: shared });
}

/** A linear layer of a scaled input is the scaled layer: [numTokens * numChosen, width]. */
function recordScaledRows(graph: CpuGraph, x: CpuTensor, shares: CpuTensor): CpuTensor {
  const { base } = graph.ggml;
  const factors = base.reshape2d(graph.claim(), shares.handle, 1, x.shape[0] ?? 0);
  return { ...x, handle: base.mul(graph.claim(), x.handle, factors) };
}

function recordOnes(graph: CpuGraph, like: CpuTensor): CpuTensor {
  return { ...like, handle: graph.ggml.base.scaleBias(graph.claim(), like.handle, 0, 1) };
}

/** The shared expert. */
function recordDense(graph: CpuGraph, config: DecoderConfig, mlp: Mlp<CpuTensor>, x: CpuTensor): CpuTensor {
  const opened = recordLinear(graph, { x, ...mlp.in });
  return recordLinear(graph, { x: recordActivation(graph, config, opened), ...mlp.out });
}
