/**
 * Decides how many threads compute the next graph. All of them is best while all run. But each node of a graph waits
 * for the slowest thread. If other programs hold the processors, or the system grants fewer than it shows, fewer
 * threads are many times faster. Pure: times in, numbers out.
 *
 * Graphs compare within a size class only. Fewer threads are tried when a class has become much slower than its best,
 * and once early on in case it always was; more are tried again from time to time.
 */

/** Times of one class with one number of threads. */
interface Times {
  /** Moving average. */
  recentMs: number;
  bestMs: number;
}

interface SizeClass {
  readonly times: Map<number, Times>;
  threads: number;
  /** Since the number of threads last changed. */
  numGraphs: number;
  /** Graphs in a row that took many times the best. */
  numSlow: number;
  /** Number of threads being tried for one graph, and what was used before. */
  trial: number | undefined;
}

/** A graph this many times slower than the best of its class has waited for processors. */
const SLOW_FACTOR = 3;
const SLOW_IN_A_ROW = 3;
/** Ratio of times that one trial must reach to be accepted. */
const GAIN = 0.8;
const FIRST_TRIAL = 12;
const TRIAL_PERIOD = 64;
const AVERAGE_WEIGHT = 0.2;

/** Numbers of threads measured before, for one row and for many. */
export interface KnownThreads {
  readonly decode: number;
  readonly prefill: number;
}

/** Fewer rows are like one: the matrices that are read take the time. */
const MANY_ROWS = 8;

export class ThreadLadder {
  readonly #maxThreads: number;
  readonly #known: KnownThreads;
  readonly #classes = new Map<number, SizeClass>();

  /** `known`: to begin with; without it all threads. */
  constructor(maxThreads: number, known: KnownThreads = { decode: maxThreads, prefill: maxThreads }) {
    this.#maxThreads = maxThreads;
    this.#known = known;
  }

  /** Threads for a graph over `size` rows; `took` is to be told how long it ran. */
  choose(size: number): number {
    const known = this.#classOf(size);
    known.numGraphs += 1;
    known.trial = this.#trialOf(known);
    return known.trial ?? known.threads;
  }

  took(size: number, ms: number): void {
    const known = this.#classOf(size);
    const threads = known.trial ?? known.threads;
    const times = known.times.get(threads) ?? { recentMs: ms, bestMs: ms };
    known.times.set(threads, times);
    times.bestMs = Math.min(times.bestMs, ms);
    // A trial counts alone: what was seen with that number of threads before may be long ago.
    times.recentMs = known.trial === undefined ? times.recentMs + AVERAGE_WEIGHT * (ms - times.recentMs) : ms;
    if (known.trial !== undefined) this.#judge(known, ms);
    else known.numSlow = ms > SLOW_FACTOR * times.bestMs ? known.numSlow + 1 : 0;
  }

  #trialOf(known: SizeClass): number | undefined {
    const { threads, numGraphs } = known;
    const fewer = Math.max(1, Math.floor(threads / 2));
    const isSlow = known.numSlow >= SLOW_IN_A_ROW;
    if (fewer < threads && (isSlow || numGraphs === FIRST_TRIAL)) return fewer;
    const more = Math.min(this.#maxThreads, threads * 2);
    return more > threads && numGraphs % TRIAL_PERIOD === 0 ? more : undefined;
  }

  #judge(known: SizeClass, ms: number): void {
    const before = known.times.get(known.threads);
    if (known.trial !== undefined && before !== undefined && ms < GAIN * before.recentMs) {
      known.threads = known.trial;
      known.numGraphs = 0;
    }
    known.trial = undefined;
    known.numSlow = 0;
  }

  #classOf(size: number): SizeClass {
    const key = Math.ceil(Math.log2(Math.max(1, size)));
    const known = this.#classes.get(key) ?? {
      times: new Map<number, Times>(),
      threads: Math.min(this.#maxThreads, size < MANY_ROWS ? this.#known.decode : this.#known.prefill),
      numGraphs: 0,
      numSlow: 0,
      trial: undefined,
    };
    this.#classes.set(key, known);
    return known;
  }
}
