/**
 * Random work for schedulers: which models there are, how they batch, who asks for what and when, who gives up, what is loaded
 * anew. All of it follows from one number and is plain data, so that what shows a fault can be run again and made shorter.
 */
import type { ModelConfig } from "../../server/src/core/model-config.ts";
import { createRandom, type Random } from "../support/random.ts";
import type { FateRules } from "./fate.ts";
import { type ModelSpec, randomEnsemble, randomModel } from "./model-spec.ts";

export interface Ask {
  readonly kind: "ask";
  readonly atMs: number;
  readonly serial: number;
  /** Number of the model; -1 = the ensemble. */
  readonly target: number;
  readonly rows: number;
  readonly width: number;
  readonly value: number;
  readonly hasOptional: boolean;
  /** Only the first of the outputs is asked for. */
  readonly wantsOne: boolean;
  /** It comes to the load of the model before the present one, as when both happen at once. */
  readonly isOvertaken: boolean;
  readonly priority: number;
  readonly timeoutUs: number;
  readonly id: number;
  readonly start: boolean;
  readonly end: boolean;
}

export type Action =
  | Ask
  | { readonly kind: "cancel"; readonly atMs: number; readonly serial: number }
  | { readonly kind: "reload"; readonly atMs: number; readonly target: number }
  /** Keeps the instances whose bit is set and adds some. */
  | {
      readonly kind: "resize";
      readonly atMs: number;
      readonly target: number;
      readonly keep: number;
      readonly add: number;
    };

export interface Scenario {
  readonly fates: FateRules;
  readonly models: readonly ModelSpec[];
  /** Calls some of the models. */
  readonly ensemble: ModelConfig | undefined;
  /** How much there is of the resource that all instances share; undefined = they do not. */
  readonly capacity: number | undefined;
  /** Undefined = nothing is remembered. */
  readonly cacheBytes: number | undefined;
  /** By time. */
  readonly actions: readonly Action[];
}

const MAX_ASKS: readonly number[] = [3, 10, 30];
const MAX_IDS = 6;
const CAPACITY = 3;

export function createScenario(seed: number): Scenario {
  const random = createRandom(seed);
  const isLimited = random.below(4) === 0;
  const models = Array.from({ length: 1 + random.below(3) }, (_, i) => randomModel(random, i, isLimited));
  const spanMs = random.pick([0.5, 5, 50, 3000]);
  const ensemble = random.below(3) === 0 ? randomEnsemble(random, models) : undefined;
  return {
    fates: {
      seed,
      runMs: random.pick([0, 1, 10, 100]),
      trouble: random.pick([0, 0, 4, 12]),
    },
    models,
    ensemble,
    capacity: isLimited ? CAPACITY : undefined,
    cacheBytes: models.some((model) => model.isCached) ? random.pick([900, 2000, 100_000]) : undefined,
    actions: randomActions(random, models, ensemble !== undefined, spanMs),
  };
}

function randomActions(random: Random, models: readonly ModelSpec[], hasEnsemble: boolean, spanMs: number): Action[] {
  const atMs = (): number => Math.round(random.next() * spanMs * 100) / 100;
  const times = Array.from({ length: 1 + random.below(random.pick(MAX_ASKS)) }, atMs).sort((a, b) => a - b);
  const actions: Action[] = times.map((askMs, serial) => {
    const target = hasEnsemble && random.below(2) === 0 ? -1 : random.below(models.length);
    return randomAsk(random, target, models[target], serial, askMs);
  });
  const cancels = random.below(2) === 0 ? 0 : random.below(6);
  for (let i = 0; i < cancels; i += 1) {
    actions.push({ kind: "cancel", atMs: atMs(), serial: random.below(times.length) });
  }
  const changes = random.below(2) === 0 ? 0 : random.below(4);
  for (let i = 0; i < changes; i += 1) {
    const target = random.below(models.length);
    if (random.below(2) === 0) actions.push({ kind: "reload", atMs: atMs(), target });
    else actions.push({ kind: "resize", atMs: atMs(), target, keep: random.below(16), add: 1 + random.below(2) });
  }
  return actions.sort((a, b) => a.atMs - b.atMs);
}

function randomAsk(random: Random, target: number, model: ModelSpec | undefined, serial: number, atMs: number): Ask {
  const isSequence = model?.config.sequence_batching !== undefined;
  const maxRows = isSequence ? 1 : Math.max(1, Math.min(3, model?.config.max_batch_size ?? 1));
  return {
    kind: "ask",
    atMs,
    serial,
    target,
    rows: 1 + random.below(maxRows),
    width: 1 + (random.below(4) === 0 ? 1 : 0),
    value: model?.isCached === true ? random.below(4) : serial,
    hasOptional: model?.hasOptional === true && random.below(2) === 0,
    wantsOne: random.below(4) === 0,
    isOvertaken: random.below(10) === 0,
    priority: random.below(4),
    timeoutUs: random.below(3) === 0 ? 100 * (1 + random.below(50)) : 0,
    id: 1 + random.below(MAX_IDS),
    start: random.below(3) === 0,
    end: random.below(4) === 0,
  };
}
