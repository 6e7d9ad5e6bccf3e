/**
 * Resolves absent fields to explicit values, so that later code does not check again. Pure; each function makes a new
 * object.
 */
import type { ModelConfig, ModelInstanceGroup, ModelSequenceBatching } from "../../core/model-config.ts";
import { defaultMessage } from "./default-messages.ts";

const DEFAULT_SEQUENCE_IDLE_US = 1_000_000;
/** Backends that run several small instances on a CPU faster than one. */
const BACKENDS_WITH_TWO_CPU_INSTANCES: ReadonlySet<string> = new Set(["onnxruntime", "tensorflow"]);
/** Pipeline configurations for these backends say KIND_GPU; without a GPU they run on the CPU. */
const BACKENDS_WRITTEN_FOR_GPUS: ReadonlySet<string> = new Set(["tensorrt", "fil"]);

export function normalizeModelConfig(config: ModelConfig): ModelConfig {
  const isEnsemble = config.ensemble_scheduling !== undefined;
  return {
    ...config,
    version_policy: config.version_policy ?? { latest: { num_versions: 1 } },
    ...(config.dynamic_batching && {
      dynamic_batching: withPreferredSize(config.dynamic_batching, config.max_batch_size),
    }),
    ...(config.sequence_batching && {
      sequence_batching: normalizeSequenceBatching(config.sequence_batching, config.max_batch_size),
    }),
    ...(isEnsemble
      ? { model_transaction_policy: config.model_transaction_policy ?? { decoupled: false } }
      : { optimization: normalizeOptimization(config) }),
  };
}

/** Resolves names, kinds, counts and devices. `gpus`: usable devices, by default or on request only. */
export function normalizeInstanceGroups(
  config: ModelConfig,
  gpus: readonly number[],
  byRequestOnly: boolean = false,
): ModelConfig {
  if (config.ensemble_scheduling !== undefined) return config;
  const written =
    config.instance_group.length > 0
      ? config.instance_group
      : [{ ...defaultMessage("ModelInstanceGroup"), name: config.name }];
  const open = byRequestOnly ? [] : gpus;
  const instance_group = written.map((group, index) => normalizeGroup(group, index, config, gpus, open));
  return { ...config, instance_group };
}

/** An ensemble is decoupled when one of its steps is, which only the repository knows. */
export function withDecoupled(config: ModelConfig, decoupled: boolean): ModelConfig {
  return Object.freeze({ ...config, model_transaction_policy: Object.freeze({ decoupled }) });
}

function withPreferredSize<T extends { readonly preferred_batch_size: readonly number[] }>(batcher: T, max: number): T {
  if (batcher.preferred_batch_size.length > 0 || max <= 0) return batcher;
  return { ...batcher, preferred_batch_size: [max] };
}

function normalizeSequenceBatching(batcher: ModelSequenceBatching, max: number): ModelSequenceBatching {
  return {
    ...batcher,
    max_sequence_idle_microseconds: batcher.max_sequence_idle_microseconds || DEFAULT_SEQUENCE_IDLE_US,
    ...(batcher.oldest && { oldest: withPreferredSize(batcher.oldest, max) }),
  };
}

function normalizeOptimization(config: ModelConfig): ModelConfig["optimization"] {
  const written = config.optimization ?? defaultMessage("ModelOptimizationPolicy");
  return {
    ...written,
    input_pinned_memory: written.input_pinned_memory ?? { enable: true },
    output_pinned_memory: written.output_pinned_memory ?? { enable: true },
  };
}

/** `open`: devices of groups without a kind. */
function normalizeGroup(
  group: ModelInstanceGroup,
  index: number,
  config: ModelConfig,
  gpus: readonly number[],
  open: readonly number[],
): ModelInstanceGroup {
  const kind = kindOf(group, config, open);
  const isMoved = kind !== group.kind && group.kind === "KIND_GPU";
  const twoByDefault = kind === "KIND_CPU" && BACKENDS_WITH_TWO_CPU_INSTANCES.has(config.backend);
  return {
    ...group,
    name: group.name || `${config.name}_${index}`,
    kind,
    count: group.count >= 1 ? group.count : twoByDefault ? 2 : 1,
    gpus: isMoved ? [] : kind === "KIND_GPU" && group.gpus.length === 0 ? [...gpus] : group.gpus,
  };
}

/** Groups for GPUs run on the CPU when there is no GPU. */
function kindOf(group: ModelInstanceGroup, config: ModelConfig, open: readonly number[]): ModelInstanceGroup["kind"] {
  if (group.kind === "KIND_AUTO") return resolvedKind(group, open);
  const isMoved = group.kind === "KIND_GPU" && open.length === 0 && BACKENDS_WRITTEN_FOR_GPUS.has(config.backend);
  return isMoved ? "KIND_CPU" : group.kind;
}

/** A GPU, if one exists and all listed devices do. */
function resolvedKind(group: ModelInstanceGroup, gpus: readonly number[]): "KIND_GPU" | "KIND_CPU" {
  return gpus.length > 0 && group.gpus.every((id) => gpus.includes(id)) ? "KIND_GPU" : "KIND_CPU";
}
