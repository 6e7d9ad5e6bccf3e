/** Compares what a replay found with the list of known failures, which may only become shorter. Pure. */
import type { ProbeResult } from "./golden-replay.ts";

/** Ids of probes that fail, by the reason: what is not there yet. */
export type KnownFailures = Readonly<Record<string, readonly string[]>>;

export interface Judgement {
  /** Failures that nobody has listed. */
  readonly unexpected: readonly ProbeResult[];
  /** Listed ids that pass now: they have to leave the list. */
  readonly repaired: readonly string[];
}

export function judgeReplay(results: readonly ProbeResult[], known: KnownFailures): Judgement {
  const listed = new Set(Object.values(known).flat());
  return {
    unexpected: results.filter(({ id, passed }) => !passed && !listed.has(id)),
    repaired: results.filter(({ id, passed }) => passed && listed.has(id)).map(({ id }) => id),
  };
}

/** Listed ids that no recording has, and ids listed twice. */
export function faultsOfList(known: KnownFailures, recorded: ReadonlySet<string>): string[] {
  const ids = Object.values(known).flat();
  const unknown = ids.filter((id) => !recorded.has(id)).map((id) => `${id}: no such recording`);
  const twice = ids.filter((id, i) => ids.indexOf(id) !== i).map((id) => `${id}: listed twice`);
  return [...unknown, ...twice];
}
