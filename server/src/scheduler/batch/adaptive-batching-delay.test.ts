import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeConfig } from "../../../../tests/fakes/model-config.ts";
import type { ModelConfig, ModelDynamicBatching } from "../../core/model-config.ts";
import { expectAdaptiveDelaySetting, SingleClientTraffic, usesAdaptiveDelay } from "./adaptive-batching-delay.ts";

const BATCHING: ModelDynamicBatching = {
  preferred_batch_size: [8],
  max_queue_delay_microseconds: 500,
  preserve_ordering: false,
  priority_levels: 0,
  default_priority_level: 0,
  priority_queue_policy: {},
};
const POLICY = {
  timeout_action: "REJECT",
  default_timeout_microseconds: 0,
  allow_timeout_override: false,
  max_queue_size: 4,
} as const;

function config(batching: Partial<ModelDynamicBatching> | undefined, changes: Partial<ModelConfig> = {}): ModelConfig {
  const dynamic_batching = batching === undefined ? undefined : { ...BATCHING, ...batching };
  return fakeConfig({ max_batch_size: 8, dynamic_batching, ...changes });
}

test("SingleClientTraffic finds the delay in vain after 32 that were alone, but for each seventeenth, until one is not alone", () => {
  const traffic = new SingleClientTraffic();
  const inVain = (alone: readonly boolean[]): boolean[] =>
    alone.map((isAlone) => {
      traffic.arrived(isAlone);
      return traffic.isDelayInVain;
    });
  const yes = new Array<boolean>(16).fill(true);
  const no = new Array<boolean>(32).fill(false);
  assert.deepEqual(inVain(new Array<boolean>(69).fill(true)), [...no, true, false, ...yes, false, ...yes, false, true]);
  assert.deepEqual(inVain([false, ...new Array<boolean>(33).fill(true)]), [false, ...no, true]);
});

const CASES: readonly (readonly [title: string, config: ModelConfig, isSpared: boolean])[] = [
  ["a short delay and nothing else", config({}), true],
  ["a delay of 5 ms", config({ max_queue_delay_microseconds: 5000 }), true],
  ["a longer delay", config({ max_queue_delay_microseconds: 5001 }), false],
  ["no delay", config({ max_queue_delay_microseconds: 0 }), false],
  ["no dynamic batching", config(undefined), false],
  ["batches of one", config({ preferred_batch_size: [1] }, { max_batch_size: 1 }), false],
  ["preferred sizes", config({ preferred_batch_size: [4, 8] }), false],
  ["order", config({ preserve_ordering: true }), false],
  ["levels", config({ priority_levels: 2 }), false],
  ["a queue policy", config({ default_queue_policy: POLICY }), false],
  ["a queue policy of a level", config({ priority_queue_policy: { "1": POLICY } }), false],
  ["the wish for all delays", config({}, { parameters: { delay_lone_requests: { string_value: "true" } } }), false],
  ["no such wish", config({}, { parameters: { delay_lone_requests: { string_value: "false" } } }), true],
];
for (const [title, model, isSpared] of CASES) {
  test(`usesAdaptiveDelay() is ${isSpared} for a model with ${title}`, () => {
    assert.equal(usesAdaptiveDelay(model), isSpared);
  });
}

test("expectAdaptiveDelaySetting() refuses what is neither true nor false", () => {
  const model = config({}, { parameters: { delay_lone_requests: { string_value: "never" } } });
  const message = "parameter 'delay_lone_requests' of model 'm' must be 'true' or 'false', got 'never'";
  assert.throws(() => expectAdaptiveDelaySetting(model), { code: "invalid_argument", message });
  for (const [, other] of CASES) expectAdaptiveDelaySetting(other);
});
