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

test("SingleClientTraffic skips the delay after 32 unbatched requests, except for every 17th, until one meets another", () => {
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

const withParameters = (words: Readonly<Record<string, string>>): ModelConfig =>
  config(
    {},
    { parameters: Object.fromEntries(Object.entries(words).map(([name, word]) => [name, { string_value: word }])) },
  );

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
  ["adaptive_batching_delay false", withParameters({ adaptive_batching_delay: "false" }), false],
  ["adaptive_batching_delay true", withParameters({ adaptive_batching_delay: "true" }), true],
  ["the alias delay_lone_requests true", withParameters({ delay_lone_requests: "true" }), false],
  ["the alias delay_lone_requests false", withParameters({ delay_lone_requests: "false" }), true],
  ["both", withParameters({ adaptive_batching_delay: "true", delay_lone_requests: "true" }), true],
];
for (const [title, model, isSpared] of CASES) {
  test(`usesAdaptiveDelay() is ${isSpared} for a model with ${title}`, () => {
    assert.equal(usesAdaptiveDelay(model), isSpared);
  });
}

test("expectAdaptiveDelaySetting() refuses what is neither true nor false", () => {
  for (const name of ["adaptive_batching_delay", "delay_lone_requests"]) {
    const message = `parameter '${name}' of model 'm' must be 'true' or 'false', got 'never'`;
    assert.throws(() => expectAdaptiveDelaySetting(withParameters({ [name]: "never" })), {
      code: "invalid_argument",
      message,
    });
  }
  for (const [, other] of CASES) expectAdaptiveDelaySetting(other);
});
