/** Records the launches of a decoder's pass, without a GPU. */
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DenseGemm } from "../../device/cuda/dense-gemm.ts";
import { FakeKernelStream, type RecordedLaunch } from "../../device/cuda/fake-kernel-stream.ts";
import { placeRegions } from "../../device/cuda/regions.ts";
import { parseDecoderConfig } from "../config/parse-decoder-config.ts";
import { describeWeights, type WeightPlan } from "../weights/weight-plan.ts";
import { attentionScratch } from "./attention.ts";
import { enqueueDecoder, enqueueLogits } from "./decoder.ts";
import { planExperts } from "./experts-memory.ts";
import { planActivations } from "./memory.ts";
import type { CudaBatch, CudaCacheType, CudaDecoderModel, CudaPass } from "./pass.ts";
import { layOutStep } from "./step-layout.ts";

type Config = Readonly<Record<string, unknown>>;

const SIZES = {
  vocab_size: 512,
  hidden_size: 128,
  intermediate_size: 256,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 32,
  max_position_embeddings: 256,
};
export const LLAMA: Config = { architectures: ["LlamaForCausalLM"], hidden_act: "silu", rms_norm_eps: 1e-5, ...SIZES };
export const GEMMA: Config = {
  architectures: ["Gemma2ForCausalLM"],
  hidden_act: "gelu_pytorch_tanh",
  hidden_activation: "gelu_pytorch_tanh",
  rms_norm_eps: 1e-6,
  query_pre_attn_scalar: 32,
  final_logit_softcapping: 30,
  attn_logit_softcapping: 50,
  sliding_window: 64,
  ...SIZES,
};
export const PHI: Config = {
  architectures: ["PhiForCausalLM"],
  hidden_act: "gelu_new",
  layer_norm_eps: 1e-5,
  partial_rotary_factor: 0.5,
  ...SIZES,
  num_key_value_heads: 4,
};

export const MIXTRAL: Config = {
  ...LLAMA,
  architectures: ["MixtralForCausalLM"],
  num_local_experts: 4,
  num_experts_per_tok: 2,
};
export const QWEN_MOE: Config = {
  ...LLAMA,
  architectures: ["Qwen2MoeForCausalLM"],
  num_experts: 8,
  num_experts_per_tok: 3,
  moe_intermediate_size: 64,
  shared_expert_intermediate_size: 96,
};

export interface Recording {
  readonly kernels: readonly string[];
  readonly gemms: readonly DenseGemm[];
  readonly launches: readonly RecordedLaunch[];
}

/** The launches of a pass, in order; GEMMs are among the kernels as "gemm". */
export function record(
  config: Readonly<Record<string, unknown>>,
  numTokens: number,
  kind: Partial<CudaBatch>,
  {
    cacheType = "bf16",
    hasCodes = false,
    hasFp8Experts = false,
    hasInt4 = false,
    hasCodedOutput = false,
    isDeterministic,
    arch = "sm_90",
  }: {
    cacheType?: CudaCacheType;
    hasCodes?: boolean;
    hasFp8Experts?: boolean;
    /** Matrices of layers in INT4, in groups of 64, where their sides allow it. */
    hasInt4?: boolean;
    hasCodedOutput?: boolean;
    isDeterministic?: boolean;
    /** With WGMMA: "sm_90a". */
    arch?: string;
  } = {},
): Recording {
  const parsed = parseDecoderConfig({ config, generation: undefined, at: { config: "test", generation: "test" } });
  let address = 2n ** 20n;
  const weights = describeWeights(parsed.config, parsed.weights, "", (plan): CudaTensor => {
    address += 2n ** 20n;
    if (hasInt4 && isLayerMatrix(plan) && plan.shape.every((size) => size % 64 === 0))
      return { address, type: "int4", shape: plan.shape, scales: address, groupSize: 64 };
    const isCodedLayer = (hasCodes && isLayerMatrix(plan)) || (hasFp8Experts && plan.shape.length === 3);
    const isCoded = plan.kind === "vocabulary" ? hasCodedOutput && plan.isGemmOperand : isCodedLayer;
    return { address, type: isCoded ? "e4m3" : "bf16", shape: plan.shape, scales: isCoded ? address : undefined };
  });
  const bounds = { maxTokens: 64, maxSequences: 16, maxLogitRows: 16 };
  const scratch = attentionScratch(parsed.config, 16, cacheType, { arch: "sm_90a", numSms: 132 });
  const experts = planExperts(parsed.config, "bf16", bounds.maxTokens);
  const model: CudaDecoderModel = {
    config: parsed.config,
    type: "bf16",
    isDeterministic,
    weights,
    ropes: parsed.config.ropes.map(({ numDims }) => ({ invFreq: 64n, numDims, magnitude: 1 })),
    caches: parsed.config.layers.map(() => ({ keys: 4096n, values: 8192n })),
    cacheType,
    blockSize: 16,
    numBlocks: 32,
    attentionCountersBytes: scratch.countersBytes,
    experts: experts && placeRegions(experts, 2n ** 40n),
    int4: hasInt4 ? { counters: 2n ** 41n, partials: 2n ** 42n, decoded: 2n ** 43n, scaled: 2n ** 44n } : undefined,
    lora: { low: 2n ** 45n },
  };
  const sizes = { numTokens, numSequences: 2, maxBlocks: 8, numLogitRows: 1, numChoices: 0 };
  const batch: CudaBatch = {
    ...sizes,
    numDecoding: 0,
    maxQueryLength: numTokens,
    keepsAllRows: false,
    hasTop: false,
    numbers: 1024n,
    layout: layOutStep(sizes),
    ...kind,
  };
  const stream = new FakeKernelStream(132, arch);
  const kernels: string[] = [];
  const gemms: DenseGemm[] = [];
  const launch = stream.launch.bind(stream);
  stream.launch = (kernel, ...rest): void => {
    kernels.push(kernel.spec.name);
    launch(kernel, ...rest);
  };
  const memory = placeRegions(planActivations(parsed.config, "bf16", bounds, scratch.numBytes), 2n ** 30n);
  const run = (gemm: DenseGemm): void => {
    kernels.push("gemm");
    gemms.push(gemm);
  };
  const pass: CudaPass = { stream, gemms: { run }, model, memory, batch };
  const rows = enqueueDecoder(pass);
  if (rows !== undefined) enqueueLogits(pass, rows, { first: 0, count: batch.numLogitRows }, memory.logits);
  return { kernels, gemms, launches: stream.launches };
}

/** One that may be quantized: experts, and what reads the same rows as they, stay floats. */
function isLayerMatrix({ kind, shape, sources }: WeightPlan): boolean {
  const isShared = sources.some(({ name }) => name.includes("shared_expert"));
  return kind === "matrix" && shape.length === 2 && !isShared;
}

export const LLAMA_LAYER: readonly string[] = [
  "gemm",
  "rope_store",
  "paged_decode",
  "gemm",
  "add_norm",
  "gemm",
  "gated_mul",
  "gemm",
  "add_norm",
];
