/**
 * Decides how many of the waiting requests form the next batch. Source: Triton documentation, "Dynamic Batcher". Pure:
 * numbers in, a number out.
 */

/** The properties that decide whether two requests may share a batch, and their number of rows. */
export interface BatchCandidate {
  readonly rows: number;
  /** Requests with different keys never share a batch (shapes of variable dimensions, set of inputs given). */
  readonly key: string;
  readonly waitedUs: number;
}

export interface BatchRules {
  /** Preferred batch sizes, ascending; never empty for a model that batches. */
  readonly preferredSizes: readonly number[];
  readonly maxBatchSize: number;
  readonly queueDelayUs: number;
}

/** Take the first `take` requests now. When it is 0, decide again after `waitUs` (Infinity: when something changes). */
export interface BatchDecision {
  readonly take: number;
  readonly waitUs: number;
}

interface Walk {
  walked: number;
  rows: number;
  /** Longest wait among the requests walked: a later arrival may stand first. */
  oldestUs: number;
  /** Requests up to the last position with a preferred size; 0: none. */
  best: number;
  /** The next request cannot join, so the requests walked should run. */
  blocked: boolean;
}

export function decideBatch(queue: Iterable<BatchCandidate>, rules: BatchRules): BatchDecision {
  const walk = walkQueue(queue, rules);
  const { oldestUs } = walk;
  if (walk.walked === 0) return { take: 0, waitUs: Number.POSITIVE_INFINITY };
  const { queueDelayUs, preferredSizes } = rules;
  const isLate = queueDelayUs > 0 && oldestUs >= queueDelayUs;
  if (walk.best > 0 && !isLate) return { take: walk.best, waitUs: 0 };
  const largest = preferredSizes.at(-1) ?? rules.maxBatchSize;
  if (walk.blocked || walk.rows >= largest || isLate || queueDelayUs === 0) return { take: walk.walked, waitUs: 0 };
  return { take: 0, waitUs: queueDelayUs - oldestUs };
}

function walkQueue(queue: Iterable<BatchCandidate>, rules: BatchRules): Walk {
  const largest = rules.preferredSizes.at(-1) ?? rules.maxBatchSize;
  const walk: Walk = { walked: 0, rows: 0, oldestUs: 0, best: 0, blocked: false };
  let key: string | undefined;
  for (const candidate of queue) {
    key ??= candidate.key;
    const rows = walk.rows + candidate.rows;
    if (rows > largest && walk.best === 0) walk.best = walk.walked;
    if (walk.walked > 0 && (rows > rules.maxBatchSize || candidate.key !== key)) {
      walk.blocked = true;
      break;
    }
    walk.walked += 1;
    walk.rows = rows;
    if (candidate.waitedUs > walk.oldestUs) walk.oldestUs = candidate.waitedUs;
    if (rules.preferredSizes.includes(rows)) walk.best = walk.walked;
  }
  return walk;
}
