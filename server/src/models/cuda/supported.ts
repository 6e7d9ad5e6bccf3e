/** Which parts of decoders a GPU computes: others are refused when a model is loaded, not at its first step. Pure. */
import type { CudaActivation, CudaGatedActivation } from "../../../kernels/gated-mul/gated-mul.cuda.ts";
import type { WeightNames } from "../../formats/hf/weight-names.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";

/** Logits are scaled by whole vectors. */
const VECTOR = 4;

/** @throws Error that names what no GPU kernel computes yet */
export function expectCudaSupport(config: DecoderConfig, names: WeightNames): void {
  const missing = missingOnCuda(config, names);
  if (missing.length === 0) return;
  throw new Error(`this model needs what the GPU engine lacks: ${missing.join("; ")}. Serve it on the CPU (KIND_CPU)`);
}

/** In words; empty when a GPU can run the model. */
export function missingOnCuda(config: DecoderConfig, names: WeightNames): readonly string[] {
  const { residual, experts, headNorm, logitScale, vocabSize } = config;
  const routing = experts?.routing;
  const isPlainHeadNorm = headNorm === undefined || (headNorm.kind === "rms" && headNorm.scope === "head");
  const reasons: readonly (readonly [isMissing: boolean, reason: string])[] = [
    [config.ropes.some(({ isInterleaved }) => isInterleaved === true), "rotary positions of interleaved pairs"],
    [!isPlainHeadNorm || headNorm?.isAfterRope === true, "this form of query and key norms"],
    [names.attentionNorm === undefined, "attention without a norm in front"],
    [names.mlpNorm === undefined && residual === "sequential", "an MLP without a norm in front"],
    [config.norm.kind === "layer" && names.attentionPostNorm !== undefined, "layer norms behind a branch"],
    [config.hasCrossAttention, "attention to an encoder"],
    [config.relativeBias !== undefined, "numbers by the distance of key and query"],
    [config.positionBuckets !== undefined, "positions apart from contents"],
    [config.sinusoids !== undefined, "computed positions"],
    [config.latent !== undefined, "multi-head latent attention"],
    [!config.isCausal || residual === "post-norm", "attention to both sides"],
    [config.hasChunks, "attention in chunks"],
    [config.layers.some((layer) => layer.heads !== undefined), "heads that differ between layers"],
    [config.layers.some((layer) => layer.mlpWidth !== undefined), "MLPs that differ between layers"],
    [config.layers.some((layer) => layer.kvSource !== undefined), "layers that share keys and values"],
    [config.hasValueNorm, "norms of values"],
    [config.perLayerInputs !== undefined, "inputs of layers"],
    [config.altUp !== undefined, "alternating updates"],
    [config.hasExpertsBeside, "experts beside an MLP"],
    [config.hasLayerScale, "scales of layers"],
    [config.recurrent !== undefined, "recurrent layers"],
    [config.hasOutputGate, "gated attention"],
    [config.alibiScale !== undefined, "ALiBi"],
    [config.temperature !== undefined, "attention temperatures"],
    [config.qkvClip !== undefined, "clipped queries, keys and values"],
    [config.hasEmbeddingNorm, "a norm of embeddings"],
    [!hasCudaActivation(config), `the activation ${config.mlp.activation}`],
    [routing !== undefined, "this routing of experts"],
    [logitScale !== 1 && vocabSize % VECTOR !== 0, `scaled logits of a vocabulary that ${VECTOR} does not divide`],
  ];
  return reasons.flatMap(([isMissing, reason]) => (isMissing ? [reason] : []));
}

/** The clamped SwiGLU is part of the GEMMs of experts alone. */
function hasCudaActivation({ mlp, layers, experts }: DecoderConfig): boolean {
  if (isCudaActivation(mlp.activation)) return true;
  const isOfExperts = layers.every((layer) => layer.mlp === "experts") && experts?.sharedIntermediateSize === 0;
  return mlp.clamp !== undefined && isOfExperts;
}

const CUDA_ACTIVATIONS: readonly string[] = ["silu", "gelu-tanh", "gelu-erf", "relu", "relu2"];

function isCudaActivation(activation: string): activation is CudaActivation {
  return CUDA_ACTIVATIONS.includes(activation);
}

/** @throws Error for one that `expectCudaSupport()` refuses */
export function cudaActivation({ mlp: { activation } }: Pick<DecoderConfig, "mlp">): CudaActivation {
  if (isCudaActivation(activation)) return activation;
  throw new Error(`no GPU kernel computes the activation ${activation}`);
}

/** Activation of experts, whose GEMM has the gate and up rows of an output together. */
export function cudaExpertActivation({ mlp }: Pick<DecoderConfig, "mlp">): CudaGatedActivation {
  return mlp.clamp ?? cudaActivation({ mlp });
}
