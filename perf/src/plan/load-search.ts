/** Which loads are measured, one after the other: a range, up to a limit of latency, or by bisection. Pure. */

export interface LoadRange {
  readonly start: number;
  /** 0: up to the limit of latency. */
  readonly end: number;
  readonly step: number;
}

/** "start:end:step". @throws RangeError */
export function parseRange(text: string, flag: string): LoadRange {
  const parts = text.split(":").map((part) => (part.trim() === "" ? Number.NaN : Number(part)));
  const [start = 0, end = start, step = 1] = parts;
  const isRight = parts.length <= 3 && start > 0 && end >= 0 && step > 0 && (end === 0 || end >= start);
  if (!isRight) throw new RangeError(`${flag} is start:end:step with start <= end, got '${text}'`);
  return { start, end, step };
}

export interface MeasuredLoad {
  readonly load: number;
  /** Within the limit of latency, and steady. */
  readonly isGood: boolean;
}

/** The next load of a linear search; undefined: it is over. */
export function nextLinear({ start, end, step }: LoadRange, measured: readonly MeasuredLoad[]): number | undefined {
  const last = measured.at(-1);
  if (last === undefined) return start;
  const next = last.load + step;
  if (!last.isGood || (end > 0 && next > end + 1e-9)) return undefined;
  return next;
}

/** The next load of a binary search for the largest good one; `step` is the precision. */
export function nextBinary({ start, end, step }: LoadRange, measured: readonly MeasuredLoad[]): number | undefined {
  if (measured.length === 0) return start;
  if (measured.length === 1) return measured[0]?.isGood === true && end > start ? end : undefined;
  const good = measured.filter(({ isGood }) => isGood).map(({ load }) => load);
  const bad = measured.filter(({ isGood }) => !isGood).map(({ load }) => load);
  if (good.length === 0 || bad.length === 0) return undefined;
  const low = Math.max(...good);
  const high = Math.min(...bad);
  const middle = low + Math.round((high - low) / step / 2) * step;
  return middle > low && middle < high ? middle : undefined;
}
