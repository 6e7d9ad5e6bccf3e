/**
 * The direct strategy: a sequence keeps its batch row for life, so that a model may keep its state by row. Unused rows
 * are padded. Source: Triton documentation, "Sequence Batcher", Direct.
 */
import type { ClientSequence } from "./sequence.ts";
import { NOTHING, type SequenceBatch, type SequenceStrategy } from "./strategy.ts";

/** The request that waits in a slot. */
export interface WaitingRow {
  /** Rows of different keys never share a batch. */
  readonly key: string;
  readonly sinceMs: number;
}

export interface DirectRules {
  readonly slotCount: number;
  /** Minimum share of slots with a request (minimum_slot_utilization); 0: one is enough. */
  readonly minimumUtilization: number;
  readonly queueDelayMs: number;
}

/** Slots to run now, or the time of the next decision. */
export interface RowDecision {
  readonly run: readonly boolean[];
  readonly waitMs: number;
}

/** `rows`: waiting requests by slot, up to the highest slot in use. Pure. */
export function decideRows(rows: readonly (WaitingRow | undefined)[], rules: DirectRules, nowMs: number): RowDecision {
  let oldest: WaitingRow | undefined;
  for (const row of rows) {
    if (row !== undefined && (oldest === undefined || row.sinceMs < oldest.sinceMs)) oldest = row;
  }
  if (oldest === undefined) return { run: [], waitMs: Number.POSITIVE_INFINITY };
  const { key, sinceMs } = oldest;
  const run = rows.map((row) => row?.key === key);
  const utilization = run.filter((runs) => runs).length / rules.slotCount;
  const waitMs = sinceMs + rules.queueDelayMs - nowMs;
  return utilization >= rules.minimumUtilization || waitMs <= 0 ? { run, waitMs: 0 } : { run: [], waitMs };
}

export class DirectStrategy implements SequenceStrategy {
  readonly #rules: DirectRules;
  /** By slot, up to the highest slot in use. */
  readonly #slots: (ClientSequence | undefined)[] = [];

  constructor(rules: DirectRules) {
    this.#rules = rules;
  }

  get hasOffers(): boolean {
    return this.#slots.some((sequence) => sequence?.isOffered === true);
  }

  get mayDelay(): boolean {
    return this.#rules.queueDelayMs > 0;
  }

  offered(): readonly ClientSequence[] {
    return this.#slots.filter((sequence) => sequence?.isOffered === true) as readonly ClientSequence[];
  }

  enter(sequence: ClientSequence): void {
    const index = sequence.slot?.index ?? 0;
    while (this.#slots.length <= index) this.#slots.push(undefined);
    this.#slots[index] = sequence;
  }

  leave(sequence: ClientSequence): void {
    sequence.isOffered = false;
    this.#slots[sequence.slot?.index ?? 0] = undefined;
    while (this.#slots.length > 0 && this.#slots.at(-1) === undefined) this.#slots.pop();
  }

  offer(sequence: ClientSequence): void {
    sequence.isOffered = true;
  }

  next(nowMs: number): SequenceBatch {
    const waiting = this.#slots.map((sequence) => (sequence?.isOffered === true ? waitingRow(sequence) : undefined));
    const { run, waitMs } = decideRows(waiting, this.#rules, nowMs);
    if (run.length === 0) return waitMs === Number.POSITIVE_INFINITY ? NOTHING : { rows: [], waitMs };
    const rows = this.#slots.map((sequence, slot) => (run[slot] === true ? sequence : undefined));
    for (const sequence of rows) if (sequence !== undefined) sequence.isOffered = false;
    return { rows, waitMs };
  }
}

/** The delay counts from arrival: time spent waiting for a predecessor counts too. */
function waitingRow(sequence: ClientSequence): WaitingRow {
  return { key: sequence.key, sinceMs: sequence.queue[0]?.request.queuedMs ?? sequence.offeredMs };
}
