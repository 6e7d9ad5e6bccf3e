/** The MLP of a layer as a list of ops: gated or not, for every token or chosen among experts. */
import { recordAdd } from "../../../kernels/add/add.ggml.ts";
import { recordExpertLinear } from "../../../kernels/expert-linear/expert-linear.ggml.ts";
import { recordGateRows } from "../../../kernels/gate-rows/gate-rows.ggml.ts";
import { recordGelu } from "../../../kernels/gelu/gelu.ggml.ts";
import { recordGeluMul } from "../../../kernels/gelu-mul/gelu-mul.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { recordMixExperts } from "../../../kernels/mix-experts/mix-experts.ggml.ts";
import { recordRouteExperts } from "../../../kernels/route-experts/route-experts.ggml.ts";
import { recordSiluMul } from "../../../kernels/silu-mul/silu-mul.ggml.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { ExpertWeights, Mlp } from "../weights/weight-plan.ts";
import type { LoraChanger } from "./lora.ts";

/** [numRows, hidden] */
export function recordMlp(
  graph: CpuGraph,
  config: DecoderConfig,
  weights: Mlp<CpuTensor> | ExpertWeights<CpuTensor>,
  x: CpuTensor,
  lora: LoraChanger,
): CpuTensor {
  return "router" in weights ? recordExperts(graph, config, weights, x) : recordDense(graph, config, weights, x, lora);
}

function recordDense(
  graph: CpuGraph,
  config: DecoderConfig,
  mlp: Mlp<CpuTensor>,
  x: CpuTensor,
  lora: LoraChanger = (_linear, _x, y) => y,
): CpuTensor {
  const opened = lora("mlpIn", x, recordLinear(graph, { x, ...mlp.in }));
  const active = recordActivation(graph, config, opened);
  return lora("mlpOut", active, recordLinear(graph, { x: active, ...mlp.out }));
}

function recordActivation(graph: CpuGraph, { mlp }: DecoderConfig, x: CpuTensor): CpuTensor {
  if (mlp.activation === "silu") {
    if (mlp.isGated) return recordSiluMul(graph, { gateUp: x });
    throw new Error("silu without a gate: no architecture has it");
  }
  const form = mlp.activation === "gelu-tanh" ? "tanh" : "erf";
  return mlp.isGated ? recordGeluMul(graph, { gateUp: x, form }) : recordGelu(graph, { x, form });
}

function recordExperts(
  graph: CpuGraph,
  config: DecoderConfig,
  weights: ExpertWeights<CpuTensor>,
  x: CpuTensor,
): CpuTensor {
  const { experts } = config;
  if (experts === undefined) throw new Error("a layer has experts that its model does not describe");
  const logits = recordLinear(graph, { x, weight: weights.router });
  const route = recordRouteExperts(graph, { logits, ...experts });
  const opened = recordExpertLinear(graph, { x, weight: weights.in, ids: route.ids });
  const active = recordActivation(graph, config, opened);
  const closed = recordExpertLinear(graph, { x: active, weight: weights.out, ids: route.ids });
  const mixed = recordMixExperts(graph, { x: closed, weights: route.weights });
  if (weights.shared === undefined) return mixed;
  const gate = recordLinear(graph, { x, weight: weights.shared.gate });
  const shared = recordGateRows(graph, { x: recordDense(graph, config, weights.shared.mlp, x), gate });
  return recordAdd(graph, { a: mixed, b: shared });
}
