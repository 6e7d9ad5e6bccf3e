/** Complete model configurations for tests: every default present, a few fields changed. */
import { emptyModelConfig } from "../../server/src/config/model/model-config.ts";
import type { ModelConfig, ModelInput, ModelOutput } from "../../server/src/core/model-config.ts";

export function fakeConfig(changes: Partial<ModelConfig> = {}): ModelConfig {
  return { ...emptyModelConfig(), name: "m", backend: "fake", ...changes };
}

export function fakeInput(name: string, dims: readonly number[], changes: Partial<ModelInput> = {}): ModelInput {
  return {
    name,
    data_type: "TYPE_INT32",
    format: "FORMAT_NONE",
    dims,
    is_shape_tensor: false,
    allow_ragged_batch: false,
    optional: false,
    is_non_linear_format_io: false,
    ...changes,
  };
}

export function fakeOutput(name: string, dims: readonly number[], changes: Partial<ModelOutput> = {}): ModelOutput {
  return {
    name,
    data_type: "TYPE_INT32",
    dims,
    label_filename: "",
    is_shape_tensor: false,
    is_non_linear_format_io: false,
    ...changes,
  };
}
