/** The `parameters` of a pipeline model, by the names of TensorRT-LLM's `tensorrt_llm_bls`. Pure. */
import type { ModelConfig } from "../../core/model-config.ts";

export interface BlsSettings {
  /** Models that are called, by name. */
  readonly preprocessing: string;
  readonly postprocessing: string;
  readonly engine: string;
  /** Undefined: no speculation with a model that drafts. */
  readonly draftEngine: string | undefined;
  /** Undefined: images and videos are refused. */
  readonly encoders: string | undefined;
  /** Streamed responses hold the whole text so far, not only the new part. */
  readonly accumulates: boolean;
  readonly isDecoupled: boolean;
}

const TRUE_WORDS: readonly string[] = ["true", "yes", "1", "t"];

export function parseBlsSettings(config: ModelConfig): BlsSettings {
  const text = (key: string): string | undefined => {
    const value = Object.hasOwn(config.parameters, key) ? config.parameters[key]?.string_value : undefined;
    return value === undefined || value === "" || value.startsWith("${") ? undefined : value;
  };
  return {
    preprocessing: text("preprocessing_model_name") ?? "preprocessing",
    postprocessing: text("postprocessing_model_name") ?? "postprocessing",
    engine: text("tensorrt_llm_model_name") ?? "tensorrt_llm",
    draftEngine: text("tensorrt_llm_draft_model_name"),
    encoders: text("multimodal_encoders_name"),
    accumulates: TRUE_WORDS.includes((text("accumulate_tokens") ?? "").trim().toLowerCase()),
    isDecoupled: config.model_transaction_policy?.decoupled === true,
  };
}
