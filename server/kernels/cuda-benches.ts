/**
 * All benches of GPU kernels. Knows no driver: the caller brings the context. Sources: the head comment of each kernel.
 */
import { cudaBenches as addNorm } from "./add-norm/add-norm.cuda-bench.ts";
import { cudaBenches as attention } from "./attention/attention.cuda-bench.ts";
import { cudaBenches as copyBlock } from "./copy-block/copy-block.cuda-bench.ts";
import { cudaBenches as elementwise } from "./elementwise/elementwise.cuda-bench.ts";
import { cudaBenches as expertGemm } from "./expert-gemm/expert-gemm.cuda-bench.ts";
import { cudaBenches as fusedLayer } from "./fused-layer/fused-layer.cuda-bench.ts";
import { cudaBenches as gatedMul } from "./gated-mul/gated-mul.cuda-bench.ts";
import { cudaBenches as gatherRows } from "./gather-rows/gather-rows.cuda-bench.ts";
import { cudaBenches as int4Linear } from "./int4-linear/int4-linear.cuda-bench.ts";
import { cudaBenches as lora } from "./lora/lora.cuda-bench.ts";
import { cudaBenches as mixExperts } from "./mix-experts/mix-experts.cuda-bench.ts";
import { cudaBenches as quantize } from "./quantize/quantize.cuda-bench.ts";
import { cudaBenches as replaceRows } from "./replace-rows/replace-rows.cuda-bench.ts";
import { cudaBenches as ropeStore } from "./rope-store/rope-store.cuda-bench.ts";
import { cudaBenches as routeExperts } from "./route-experts/route-experts.cuda-bench.ts";
import { cudaChecks as sampleChecks } from "./sample/sample.cuda-check.ts";
import { cudaBenches as skinnyGemm } from "./skinny-gemm/skinny-gemm.cuda-bench.ts";
import type { CudaBenchSet } from "./testing/cuda-bench.ts";
import { cudaBenches as wgmmaGemm } from "./wgmma-gemm/wgmma-gemm.cuda-bench.ts";

export const allCudaBenches: readonly CudaBenchSet[] = [
  ...addNorm,
  ...attention,
  ...copyBlock,
  ...elementwise,
  ...expertGemm,
  ...fusedLayer,
  ...gatedMul,
  ...gatherRows,
  ...int4Linear,
  ...lora,
  ...mixExperts,
  ...quantize,
  ...replaceRows,
  ...ropeStore,
  ...routeExperts,
  ...skinnyGemm,
  ...wgmmaGemm,
  // These are timed on the inputs of their checks.
  ...sampleChecks.flatMap(({ name, benches }) => (benches === undefined ? [] : [{ name, benches }])),
];
