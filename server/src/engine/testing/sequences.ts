/** For tests and benches of step runners: sequences with block tables, and the steps that compute them. */
import type { EncoderInput } from "../request/encoder-input.ts";
import type { StepInput, StepRunner } from "../step-runner.ts";

/** A sequence whose blocks were all given to it at the start. */
export class TestSequence {
  readonly blockTable: Int32Array;
  /** Tokens in the cache. */
  numCached = 0;
  readonly adapter: number | undefined;
  /** Slot of its state, for runners that have them. */
  readonly state: number;
  /** For the encoder, before its first step. */
  readonly encoderInput: EncoderInput | undefined;

  constructor(blockTable: Iterable<number>, adapter?: number, state = 0, encoderInput?: EncoderInput) {
    this.encoderInput = encoderInput;
    this.blockTable = Int32Array.from(blockTable);
    this.adapter = adapter;
    this.state = state;
  }
}

/** Blocks from `first` on, side by side. */
export function contiguousBlocks(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => first + i);
}

/** The step that appends `tokens` to each sequence and wants the logits of the last of each. */
export function stepOf(
  runner: Pick<StepRunner, "blockSize" | "numStates">,
  parts: readonly { readonly sequence: TestSequence; readonly tokens: readonly number[] }[],
): StepInput {
  const { blockSize } = runner;
  const positions: number[] = [];
  const slots: number[] = [];
  const logitRows: number[] = [];
  const sequences = parts.map(({ sequence, tokens }) => {
    const queryStart = positions.length;
    for (const [i] of tokens.entries()) {
      const place = sequence.numCached + i;
      positions.push(place);
      slots.push((sequence.blockTable[Math.floor(place / blockSize)] ?? -1) * blockSize + (place % blockSize));
    }
    logitRows.push(positions.length - 1);
    const contextLength = sequence.numCached + tokens.length;
    const { blockTable, adapter } = sequence;
    const state = runner.numStates === undefined ? undefined : sequence.state;
    return { queryStart, queryLength: tokens.length, contextLength, blockTable, adapter, state };
  });
  const encoderInputs = parts.flatMap(({ sequence: { encoderInput: input, numCached, state } }) =>
    input === undefined || numCached > 0 ? [] : [{ state, input }],
  );
  return {
    ...(encoderInputs.length === 0 ? {} : { encoderInputs }),
    tokenIds: Int32Array.from(parts.flatMap(({ tokens }) => tokens)),
    positions: Int32Array.from(positions),
    slots: Int32Array.from(slots),
    logitRows: Int32Array.from(logitRows),
    sequences,
  };
}

/** Runs that step; a row of logits per sequence, copied out of the runner. */
export async function append(
  runner: StepRunner,
  parts: readonly { readonly sequence: TestSequence; readonly tokens: readonly number[] }[],
): Promise<Float32Array[]> {
  const logits = await runner.run(stepOf(runner, parts));
  for (const { sequence, tokens } of parts) sequence.numCached += tokens.length;
  return parts.map((_, i) => logits.slice(i * runner.vocabSize, (i + 1) * runner.vocabSize));
}

export function argmax(values: Float32Array): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) {
    if ((values[i] ?? 0) > (values[best] ?? 0)) best = i;
  }
  return best;
}
