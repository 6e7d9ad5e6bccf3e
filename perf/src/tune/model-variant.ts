/** The configuration of a model with the values of a variant. Pure. */
import { emptyRecord, type WrittenMessage, type WrittenValue } from "@nereid/server/config/model/written-message";
import { type SearchSpace, type SettingTarget, type Variant, valueAt } from "./search-space.ts";

/** `base` stays as it is. */
export function configOf(base: WrittenMessage, { settings }: SearchSpace, variant: Variant): WrittenMessage {
  let config = base;
  for (const [k, setting] of settings.entries())
    config = withValue(config, setting.target, valueAt(setting, variant[k]));
  return withFittingBatches(config);
}

function withValue(config: WrittenMessage, target: SettingTarget, value: WrittenValue): WrittenMessage {
  switch (target.kind) {
    case "max_batch_size":
      return { ...config, max_batch_size: value };
    case "instance_count":
      return { ...config, instance_group: instanceGroups(config).map((group) => ({ ...group, count: value })) };
    case "queue_delay_us":
      return withField(config, ["dynamic_batching", "max_queue_delay_microseconds"], value);
    case "parameter":
      return withField(config, ["parameters", target.key, "string_value"], String(value));
    case "field":
      return withField(config, target.path, value);
  }
}

function instanceGroups(config: WrittenMessage): readonly WrittenMessage[] {
  const groups = config.instance_group;
  return Array.isArray(groups) && groups.length > 0 ? (groups as readonly WrittenMessage[]) : [{}];
}

function withField(
  message: WrittenMessage,
  [name = "", ...rest]: readonly string[],
  value: WrittenValue,
): WrittenMessage {
  const copy = Object.assign(emptyRecord<WrittenValue>(), message);
  const inner = copy[name];
  const isMessage = typeof inner === "object" && !Array.isArray(inner);
  copy[name] = rest.length === 0 ? value : withField(isMessage ? (inner as WrittenMessage) : {}, rest, value);
  return copy;
}

/** Preferred sizes above the largest batch would be refused when the model loads. */
function withFittingBatches(config: WrittenMessage): WrittenMessage {
  const batching = config.dynamic_batching as WrittenMessage | undefined;
  const preferred = batching?.preferred_batch_size as readonly number[] | undefined;
  if (batching === undefined || preferred === undefined) return config;
  const fitting = preferred.filter((size) => size <= Number(config.max_batch_size ?? 0));
  return { ...config, dynamic_batching: { ...batching, preferred_batch_size: fitting } };
}

/** All instances on the CPU, as `cpu_only` asks. */
export function onCpu(config: WrittenMessage): WrittenMessage {
  return {
    ...config,
    instance_group: instanceGroups(config).map((group) => ({ ...group, kind: "KIND_CPU", gpus: [] })),
  };
}

/** Which settings a model has: delays need a dynamic batcher, batches a batch dimension. */
export interface ModelTraits {
  readonly hasBatches: boolean;
  readonly hasDynamicBatching: boolean;
  readonly isEnsemble: boolean;
}

export function traitsOf(config: WrittenMessage): ModelTraits {
  const hasBatches = Number(config.max_batch_size ?? 0) > 0;
  const isEnsemble = config.ensemble_scheduling !== undefined || config.platform === "ensemble";
  return { hasBatches, isEnsemble, hasDynamicBatching: hasBatches && config.sequence_batching === undefined };
}
