/** Random models and ensembles for schedules, as configurations that the server would accept. */
import type {
  ModelConfig,
  ModelDynamicBatching,
  ModelQueuePolicy,
  ModelSequenceBatching,
} from "../../server/src/core/model-config.ts";
import { planEnsemble } from "../../server/src/scheduler/ensemble/ensemble-plan.ts";
import { fakeConfig, fakeInput, fakeOutput } from "../fakes/model-config.ts";
import { fakeSequenceBatching } from "../fakes/sequences.ts";
import type { Random } from "../support/random.ts";

export interface ModelSpec {
  readonly config: ModelConfig;
  readonly numInstances: number;
  /** A say of its own in what shares a batch. */
  readonly hasStrategy: boolean;
  readonly hasOptional: boolean;
  readonly isCached: boolean;
  /** Its executions settle before its requests are answered. */
  readonly answersLater: boolean;
  /** Need of the shared resource, for each instance. */
  readonly need: number;
  readonly priority: number;
}

export function isDecoupled({ config }: ModelSpec): boolean {
  return config.model_transaction_policy?.decoupled === true;
}

export function randomModel(random: Random, index: number, isLimited: boolean): ModelSpec {
  const name = `m${index}`;
  const isSequence = random.below(3) === 0;
  const decoupled = random.below(4) === 0;
  const hasOptional = !isSequence && random.below(3) === 0;
  const isRagged = random.below(4) === 0;
  const input = [fakeInput("X", [-1], { allow_ragged_batch: isRagged })];
  if (hasOptional) input.push(fakeInput("Z", [-1], { optional: true, allow_ragged_batch: true }));
  const max_batch_size = random.pick([0, 1, 2, 4, 8]);
  const config = fakeConfig({
    name,
    max_batch_size,
    input,
    output: [fakeOutput("Y", [-1]), fakeOutput("GENERATION", [1])],
    model_transaction_policy: { decoupled },
    ...(isSequence ? { sequence_batching: randomSequences(random, max_batch_size) } : {}),
    ...(!isSequence && random.below(4) > 0 ? { dynamic_batching: randomBatching(random, max_batch_size) } : {}),
  });
  return {
    config,
    numInstances: 1 + random.below(3),
    hasStrategy: config.dynamic_batching !== undefined && random.below(4) === 0,
    hasOptional,
    isCached: !isSequence && !decoupled && random.below(3) === 0,
    answersLater: !isSequence && random.below(5) === 0,
    need: isLimited ? random.below(4) : 0,
    priority: random.below(3),
  };
}

function randomBatching(random: Random, maxBatchSize: number): ModelDynamicBatching {
  const levels = random.pick([0, 0, 1, 3]);
  const preserve_ordering = levels <= 1 && random.below(3) === 0;
  const policy = (): ModelQueuePolicy => randomPolicy(random, !preserve_ordering);
  const sizes = Array.from({ length: random.below(3) }, () => 1 + random.below(Math.max(1, maxBatchSize)));
  return {
    preferred_batch_size: sizes.length > 0 ? [...new Set(sizes)] : [Math.max(1, maxBatchSize)],
    max_queue_delay_microseconds: random.pick([0, 0, 300, 5000]),
    preserve_ordering,
    priority_levels: levels,
    default_priority_level: levels === 0 ? 0 : 1 + random.below(levels),
    ...(random.below(2) === 0 ? { default_queue_policy: policy() } : {}),
    priority_queue_policy: levels === 3 && random.below(2) === 0 ? { "2": policy() } : {},
  };
}

function randomPolicy(random: Random, canDelay: boolean): ModelQueuePolicy {
  return {
    timeout_action: canDelay && random.below(2) === 0 ? "DELAY" : "REJECT",
    default_timeout_microseconds: random.pick([0, 1000, 4000]),
    allow_timeout_override: random.below(2) === 0,
    max_queue_size: random.pick([0, 0, 1, 4]),
  };
}

function randomSequences(random: Random, maxBatchSize: number): ModelSequenceBatching {
  const state = {
    input_name: "STATE_IN",
    output_name: "STATE_OUT",
    data_type: "TYPE_INT32" as const,
    dims: [1],
    initial_state: [],
    use_same_buffer_for_input_output: false,
    use_growable_memory: false,
  };
  const oldest = {
    max_candidate_sequences: random.below(4),
    preferred_batch_size: maxBatchSize > 1 && random.below(2) === 0 ? [1 + random.below(maxBatchSize)] : [],
    max_queue_delay_microseconds: random.pick([0, 400]),
    preserve_ordering: random.below(3) === 0,
  };
  const direct = {
    max_queue_delay_microseconds: random.pick([0, 400]),
    minimum_slot_utilization: random.pick([0, 0.5, 1]),
  };
  return fakeSequenceBatching({
    max_sequence_idle_microseconds: random.pick([2000, 50_000, 1_000_000]),
    iterative_sequence: random.below(4) === 0,
    state: random.below(2) === 0 ? [state] : [],
    ...(random.below(2) === 0 ? { oldest } : { direct }),
  });
}

/** Undefined where the models that there are make none. */
export function randomEnsemble(random: Random, models: readonly ModelSpec[]): ModelConfig | undefined {
  const usable = models.filter(({ config }) => config.sequence_batching === undefined);
  if (usable.length === 0) return undefined;
  const tensors = ["IN"];
  const used = new Set<string>();
  const step = Array.from({ length: 1 + random.below(4) }, (_, i) => {
    const { config, hasOptional } = random.pick(usable);
    const inputs: { X: string; Z?: string } = { X: random.pick(tensors) };
    if (hasOptional && random.below(2) === 0) inputs.Z = random.pick(tensors);
    for (const tensor of Object.values(inputs)) used.add(tensor);
    tensors.push(`T${i}`);
    return {
      model_name: config.name,
      model_version: -1,
      input_map: inputs,
      output_map: { Y: `T${i}` },
      model_namespace: "",
    };
  });
  const outputs = tensors.filter((tensor) => tensor !== "IN" && !used.has(tensor));
  const config = fakeConfig({
    name: "e",
    platform: "ensemble",
    input: [fakeInput("IN", [-1])],
    output: outputs.map((output) => fakeOutput(output, [-1])),
    ensemble_scheduling: { step, max_inflight_requests: random.pick([0, 0, 1, 2]) },
  });
  return used.has("IN") && hasOneStream(config, models) ? config : undefined;
}

/** True when each answer can carry all outputs: where streams fork, the others would lack what one brings. */
function hasOneStream(config: ModelConfig, models: readonly ModelSpec[]): boolean {
  const decoupled = new Set(models.filter(isDecoupled).map((model) => model.config.name));
  try {
    const { steps } = planEnsemble(config, (name) => decoupled.has(name));
    const streams = steps.filter((step) => step.isDecoupled);
    return streams.every(({ origin }, i) => streams.every((other, k) => i === k || other.origin !== origin));
  } catch {
    return false; // joins two streams
  }
}
