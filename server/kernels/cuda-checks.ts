/**
 * All checks of GPU kernels. Knows no driver: the caller brings the context. Sources: the head comment of each kernel.
 */
import { cudaChecks as addNorm } from "./add-norm/add-norm.cuda-check.ts";
import { cudaChecks as allReduce } from "./all-reduce/all-reduce.cuda-check.ts";
import { cudaChecks as attention } from "./attention/attention.cuda-check.ts";
import { cudaChecks as fixedAttention } from "./attention/fixed-attention.cuda-check.ts";
import { cudaChecks as copyBlock } from "./copy-block/copy-block.cuda-check.ts";
import { cudaChecks as elementwise } from "./elementwise/elementwise.cuda-check.ts";
import { cudaChecks as expertGemm } from "./expert-gemm/expert-gemm.cuda-check.ts";
import { cudaChecks as expertLinear } from "./expert-linear/expert-linear.cuda-check.ts";
import { cudaChecks as fusedLayer } from "./fused-layer/fused-layer.cuda-check.ts";
import { cudaChecks as int4Linear } from "./int4-linear/int4-linear.cuda-check.ts";
import { cudaChecks as lora } from "./lora/lora.cuda-check.ts";
import { cudaChecks as quantize } from "./quantize/quantize.cuda-check.ts";
import { cudaChecks as ropeStore } from "./rope-store/rope-store.cuda-check.ts";
import { cudaChecks as sample } from "./sample/sample.cuda-check.ts";
import { cudaChecks as tokenCounts } from "./sample/token-counts.cuda-check.ts";
import { cudaChecks as topLogProbs } from "./sample/top-log-probs.cuda-check.ts";
import { cudaChecks as skinnyGemm } from "./skinny-gemm/skinny-gemm.cuda-check.ts";
import type { CudaCheck } from "./testing/cuda-check.ts";
import { cudaChecks as wgmmaGemm } from "./wgmma-gemm/wgmma-gemm.cuda-check.ts";

export const allCudaChecks: readonly CudaCheck[] = [
  ...elementwise,
  ...addNorm,
  ...quantize,
  ...ropeStore,
  ...attention,
  ...fixedAttention,
  ...sample,
  ...tokenCounts,
  ...topLogProbs,
  ...int4Linear,
  ...skinnyGemm,
  ...fusedLayer,
  ...wgmmaGemm,
  ...expertLinear,
  ...expertGemm,
  ...lora,
  ...copyBlock,
  ...allReduce,
];
