/** Samples of `npm run soak -- sampling emulated-sampling emulated-penalties`: both samplers against the reference, and against each other. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Sampler } from "../../server/src/engine/sample/sampler.ts";
import { hostCompiler } from "../cuda-emulation/compile-emulation.ts";
import { EmulatedDevice } from "../cuda-emulation/emulated-device.ts";
import { deviateOf, distributionRef, type ReferenceDistribution } from "./chi-square.ts";
import { chooseEmulated } from "./emulated-sampler.ts";
import { checkPenalties } from "./penalty-cases.ts";
import { logitsOf, SAMPLING_CASES, sequenceOf } from "./sampling-cases.ts";

const VOCAB = 1003;
const NUM_DRAWS = 1500;
/** One in 300,000 normal deviates is larger; the seeds are fixed. */
const MAX_DEVIATE = 4.5;

const compiler = hostCompiler();
const skip = compiler.reason ?? false;

for (const isPeaked of [false, true]) {
  test(`sample() draws by the reference's distribution, ${isPeaked ? "peaked" : "flat"}`, () => {
    const logits = logitsOf(VOCAB, isPeaked, 3);
    const sampler = new Sampler(VOCAB);
    for (const each of SAMPLING_CASES) {
      const sequence = sequenceOf(each, VOCAB);
      const expected = distributionRef(logits, sequence);
      const counts = new Float64Array(VOCAB);
      for (let i = 0; i < NUM_DRAWS; i++) {
        const token = sampler.sample(logits, sequence);
        counts[token] = (counts[token] ?? 0) + 1;
        sequence.numTokens += 1;
      }
      assert.ok(deviateOf(counts, expected, each.name) < MAX_DEVIATE, each.name);
    }
  });
}

test("deviateOf() tells a distribution from another", () => {
  const probabilities = Float64Array.of(0.5, 0.3, 0.2, 0);
  const expected: ReferenceDistribution = { probabilities, kept: [0, 1, 2] };
  assert.ok(deviateOf(Float64Array.of(501, 298, 201, 0), expected, "right") < 2);
  assert.ok(deviateOf(Float64Array.of(400, 380, 220, 0), expected, "wrong") > MAX_DEVIATE);
  assert.throws(() => deviateOf(Float64Array.of(500, 300, 199, 1), expected, "outside"), /token 3 may not come/);
});

test("the kernel of sampling chooses as the engine's own sampler under penalties", { skip }, async () => {
  const device = new EmulatedDevice({ compiler, arch: "sm_90", seed: 1 });
  for (let seed = 1; seed <= 3; seed++) await checkPenalties(device, seed);
});

test("the kernel of sampling draws by the reference's distribution", { skip }, async () => {
  const device = new EmulatedDevice({ compiler, arch: "sm_90", seed: 1 });
  const logits = logitsOf(VOCAB, true, 4);
  for (const each of SAMPLING_CASES.filter(({ name }) => name.includes(" and "))) {
    const sequence = sequenceOf(each, VOCAB);
    const counts = new Float64Array(VOCAB);
    const rows = Array.from({ length: 128 }, (_, index) => ({ logits, sequence, index }));
    for (const token of await chooseEmulated(device, rows)) counts[token] = (counts[token] ?? 0) + 1;
    assert.ok(deviateOf(counts, distributionRef(logits, sequence), each.name) < MAX_DEVIATE, each.name);
  }
});
