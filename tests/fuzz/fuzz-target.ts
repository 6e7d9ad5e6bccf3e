/**
 * A reader of untrusted bytes under structure-aware fuzzing: its seeds, how they are broken, and how it may refuse. A case is
 * made from seed and number alone, so that each can be run again. Source of the idea: libFuzzer, "Structure-Aware Fuzzing".
 */
import { ServerError } from "../../server/src/core/server-error.ts";
import { createRandom, type Random } from "../support/random.ts";

export interface FuzzTarget {
  readonly name: string;
  /** Valid inputs; mutations begin with one of them. */
  readonly seeds: readonly Buffer[];
  readonly mutate: (seed: Buffer, random: Random) => Buffer;
  /** Reads one input. @throws what the reader throws; AssertionError when what it read does not stand a round trip */
  readonly read: (input: Buffer) => void | Promise<void>;
  /** Whether the reader may throw this: one of the project's error types, for which it says so. */
  readonly isRefusal: (error: unknown) => boolean;
  /** Wall time that one input may take on an idle machine. */
  readonly maxCaseMs: number;
}

/** Odd, so that neighbouring numbers give unrelated states. */
const CASE_STEP = 0x9e3779b1;

/** Input number `index` of a run. */
export function drawCase({ seeds, mutate }: FuzzTarget, seed: number, index: number): Buffer {
  const random = createRandom((Math.imul(index + 1, CASE_STEP) ^ seed) >>> 0);
  return mutate(Buffer.from(random.pick(seeds)), random);
}

/** The class that may reach a client. */
export function isServerError(error: unknown): boolean {
  return error instanceof ServerError;
}

/**
 * Readers of files throw `Error` itself, with the place and the reason. Its built-in subclasses (TypeError, RangeError) come from
 * the engine: the reader did not foresee the input.
 */
export function isPlainRefusal(error: unknown): boolean {
  return error instanceof Error && error.constructor === Error && error.message !== "";
}
