/** Random rows with random penalties, whose greedy choice the emulated kernel and the engine's own sampler make. */
import assert from "node:assert/strict";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { Sequence } from "../../server/src/engine/request/sequence.ts";
import { Sampler } from "../../server/src/engine/sample/sampler.ts";
import type { EmulatedDevice } from "../cuda-emulation/emulated-device.ts";
import { createRandom, type Random } from "../support/random.ts";
import { chooseEmulated, type EmulatedRow } from "./emulated-sampler.ts";
import { SILENT } from "./sampling-cases.ts";

/** Small and odd: penalties meet most tokens. */
const VOCAB = 101;
export const PENALTY_ROWS = 64;

/** Compares a launch of rows. @throws AssertionError naming the first row that differs */
export async function checkPenalties(device: EmulatedDevice, seed: number): Promise<void> {
  const random = createRandom(seed);
  const rows = Array.from({ length: PENALTY_ROWS }, () => rowOf(random));
  const sampler = new Sampler(VOCAB);
  const wanted = rows.map(({ logits, sequence }) => sampler.sample(logits, sequence));
  assert.deepEqual([...(await chooseEmulated(device, rows))], wanted, `seed ${seed}`);
}

function rowOf(random: Random): EmulatedRow {
  const said = Array.from({ length: 1 + random.below(60) }, () => random.below(VOCAB));
  const request: GenerateRequest = {
    ...NEUTRAL_REQUEST,
    topK: 1,
    temperature: random.pick([1, 1, 0.7, 1.6]),
    repetitionPenalty: random.pick([1, 0.8, 1.1, 1.5, 2]),
    presencePenalty: random.pick([0, 0.3, -0.5, 1.25]),
    frequencyPenalty: random.pick([0.1, -0.2, 0.75]),
    promptIgnoreLength: random.below(3) === 0 ? random.below(said.length + 1) : 0,
    promptTokens: Int32Array.from(said),
    maxTokens: 200,
  };
  const sequence = new Sequence(request, SILENT, { blockSize: 64, vocabSize: VOCAB, maxSequenceLength: 400 });
  for (let i = random.below(30); i > 0; i--) sequence.append(random.below(VOCAB));
  // Steps of a quarter, so that penalties often decide between equals.
  const isCoarse = random.below(2) === 0;
  const logits = Float32Array.from({ length: VOCAB }, () => {
    const x = 8 * random.next() - 4;
    return isCoarse ? Math.round(4 * x) / 4 : x;
  });
  return { logits, sequence, index: sequence.numOutput };
}
