/** Random loads over a real model, deterministic to the bit or close, many more of them than a test has time for. */
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { DETERMINISTIC, expectClose, expectEqualBits, MARGINS, SHAPE } from "../schedules/real-loads.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

/** Loads of one type, before the next has its turn. */
const LOADS_PER_TURN = 20;
/** Seeds of a run follow each other; runs with other seeds see other loads. */
const SEEDS_PER_RUN = 1_000_000;

export const realLoadsSoak: Soak = { name: "real-loads", run };

/** Each type once, whatever the time; then as long as there is time. */
async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const totals = { rounds: 0, loads: 0, acceptedDraftTokens: 0, preemptions: 0, tokens: 0, outputsThatDiffer: 0 };
  for (; totals.rounds === 0 || performance.now() < deadlineMs; totals.rounds += 1) {
    const first = seed * SEEDS_PER_RUN + totals.rounds * LOADS_PER_TURN;
    for (const types of DETERMINISTIC) {
      await using runner = disposable(await createDecoderRunner({ ...SHAPE, ...types, isDeterministic: true }));
      for (let i = 0; i < LOADS_PER_TURN; i++, totals.loads++) {
        const { acceptedDraftTokens, preemptions } = await expectEqualBits(runner.value, first + i);
        totals.acceptedDraftTokens += acceptedDraftTokens;
        totals.preemptions += preemptions;
      }
    }
    for (const [weightType, bound] of MARGINS) {
      await using runner = disposable(await createDecoderRunner({ ...SHAPE, weightType }));
      for (let i = 0; i < LOADS_PER_TURN; i++, totals.loads++) {
        const { numTokens, margins } = await expectClose(runner.value, first + i, bound);
        totals.tokens += numTokens;
        totals.outputsThatDiffer += margins.length;
      }
    }
  }
  return totals;
}

function disposable<T extends { close(): Promise<void> }>(value: T): AsyncDisposable & { readonly value: T } {
  return { value, [Symbol.asyncDispose]: () => value.close() };
}
