/**
 * Rules that need only the configuration, in the order in which Triton reports violations. The repository checks
 * ensembles against other models.
 */
import type { ModelConfig, ModelDynamicBatching, ModelMetrics } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";
import { PLATFORMS_OF_BACKEND } from "./backend-fields.ts";
import { validateEnsemble } from "./validate-ensemble.ts";
import { validateSequenceBatching } from "./validate-sequence.ts";

export const ENSEMBLE_PLATFORM = "ensemble";

/** @throws ServerError("invalid_argument") naming the first broken rule */
export function validateModelConfig(config: ModelConfig): void {
  if (config.name === "") throw invalidArgument("model configuration must specify 'name'");
  validateBackend(config);
  if (config.max_batch_size < 0)
    throw invalidArgument(`'max_batch_size' must be non-negative value for ${config.name}`);
  if (config.version_policy === undefined) throw invalidArgument(`must specify 'version policy' for ${config.name}`);
  if (config.dynamic_batching !== undefined) validateDynamicBatching(config, config.dynamic_batching);
  if (config.sequence_batching !== undefined) validateSequenceBatching(config, config.sequence_batching);
  validateEnsembleUse(config);
  if (config.model_transaction_policy?.decoupled === true && config.response_cache?.enable === true) {
    throw invalidArgument(
      `Response Cache does not currently support model ${config.name} with 'decoupled' transaction policy. Please disable the response cache.`,
    );
  }
  if (config.model_metrics !== undefined) validateMetrics(config.model_metrics);
}

function validateBackend(config: ModelConfig): void {
  const { name, platform, backend } = config;
  if (backend === "") {
    if (platform === ENSEMBLE_PLATFORM) return;
    if (platform === "") throw invalidArgument(`must specify 'platform' or 'backend' for '${name}'.`);
    throw invalidArgument(`unexpected platform type '${platform}' for ${name}`);
  }
  if (platform === ENSEMBLE_PLATFORM) {
    throw invalidArgument(`Ensemble model '${name}' must have platform type '${platform}' and empty backend type`);
  }
  const platforms = PLATFORMS_OF_BACKEND.get(backend);
  if (platforms !== undefined && !platforms.includes(platform)) {
    throw invalidArgument(`unexpected 'platform' and 'backend' pair, got:${platform}, ${backend}`);
  }
}

function validateDynamicBatching(config: ModelConfig, batcher: ModelDynamicBatching): void {
  const { name } = config;
  for (const size of batcher.preferred_batch_size) {
    if (size <= 0) throw invalidArgument(`dynamic batching preferred size must be positive for ${name}`);
    if (size > config.max_batch_size) {
      throw invalidArgument(`dynamic batching preferred size must be <= max batch size for ${name}`);
    }
  }
  const levels = batcher.priority_levels;
  if (levels !== 0) {
    if (!isLevel(batcher.default_priority_level, levels)) {
      throw invalidArgument(`default priority level must be in range [1, ${levels}] for ${name}`);
    }
    if (!Object.keys(batcher.priority_queue_policy).every((key) => isLevel(Number(key), levels))) {
      throw invalidArgument(`priority queue policy must have priority level in range [1, ${levels}] for ${name}`);
    }
  }
  if (batcher.preserve_ordering) validateOrdering(name, batcher);
}

function isLevel(level: number, levels: number): boolean {
  return level >= 1 && level <= levels;
}

function validateOrdering(name: string, batcher: ModelDynamicBatching): void {
  if (batcher.priority_levels > 1) {
    throw invalidArgument(`Only one priority level is allowed when 'preserve_ordering' is true for ${name}`);
  }
  const policies = [batcher.default_queue_policy, ...Object.values(batcher.priority_queue_policy)];
  const delays = policies.some(
    (policy) => policy?.timeout_action === "DELAY" && policy.default_timeout_microseconds !== 0,
  );
  if (delays) {
    throw invalidArgument(
      `Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for ${name}`,
    );
  }
}

function validateEnsembleUse(config: ModelConfig): void {
  if (config.ensemble_scheduling !== undefined) validateEnsemble(config, config.ensemble_scheduling, ENSEMBLE_PLATFORM);
  else if (config.platform === ENSEMBLE_PLATFORM) {
    throw invalidArgument(
      `ensemble scheduling must be set for ensemble ${config.name} whose platform is ${ENSEMBLE_PLATFORM}`,
    );
  }
}

function validateMetrics(metrics: ModelMetrics): void {
  for (const control of metrics.metric_control) {
    if (control.metric_identifier === undefined)
      throw invalidArgument("metric control must specify 'metric_identifier'");
    if (control.metric_identifier.family === "")
      throw invalidArgument("metric identifier must specify non-empty 'family'");
    if (control.histogram_options === undefined)
      throw invalidArgument("metric control must specify 'histogram_options'");
    if (control.histogram_options.buckets.length === 0) {
      throw invalidArgument("histogram options must specify non-empty 'buckets'");
    }
  }
}
