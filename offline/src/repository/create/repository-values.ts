/** Values for a new repository's placeholders: settings of one model, and defaults for all else. Pure. */
import { fillPlaceholders, findPlaceholders } from "../../template/template-text.ts";

export interface RepositorySettings {
  readonly engineDir: string;
  readonly tokenizerDir: string;
  readonly maxBatchSize: number;
  /** Decoupled: `generate_stream` needs it, and `generate` works with it too. */
  readonly isDecoupled: boolean;
  /** By placeholder; overrides all of the above. */
  readonly others: ReadonlyMap<string, string>;
}

export function repositoryValues(settings: RepositorySettings): ReadonlyMap<string, string> {
  return new Map([
    ["triton_backend", "tensorrtllm"],
    ["triton_max_batch_size", String(settings.maxBatchSize)],
    ["decoupled_mode", settings.isDecoupled ? "True" : "False"],
    ["engine_dir", settings.engineDir],
    ["tokenizer_dir", settings.tokenizerDir],
    ["batching_strategy", "inflight_fused_batching"],
    ["max_queue_delay_microseconds", "0"],
    ["max_queue_size", "0"],
    ["exclude_input_in_output", "True"],
    ["logits_datatype", "TYPE_FP32"],
    ["encoder_input_features_data_type", "TYPE_FP16"],
    ["prompt_embedding_table_data_type", "TYPE_FP16"],
    ["preprocessing_instance_count", "1"],
    ["postprocessing_instance_count", "1"],
    ["bls_instance_count", "1"],
    ...settings.others,
  ]);
}

/** Leaves no placeholder: an unset text becomes empty, which every setting treats as unset. */
export function fillRepositoryFile(template: string, values: ReadonlyMap<string, string>): string {
  const unset = findPlaceholders(template).filter(({ name, isQuoted }) => isQuoted && !values.has(name));
  return fillPlaceholders(template, new Map([...unset.map(({ name }) => [name, ""] as const), ...values]));
}
