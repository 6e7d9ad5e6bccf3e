/**
 * Decides which runs may block the event loop. Another thread costs about fifty microseconds, far more than a small
 * model; a long run on the loop stops every other client. Pure: times are arguments.
 */

/** Longest run that may be made on the event loop. */
export const SYNC_LIMIT_US = 100;
/** A run on another thread that came back within this may be tried on the loop once, to learn its true length. */
const PROBE_LIMIT_US = 1_500;
/** Runs to wait after a try that took too long; doubles with every such try. */
const FIRST_PAUSE = 64;
const LONGEST_PAUSE = 65_536;
/**
 * Weight of the newest run in the mean. A few runs held up by the system, on a machine with other work, do not change the
 * decision; a model that became slow does within ten.
 */
const WEIGHT = 0.125;
const LONGEST_SAMPLE_US: number = 1.5 * SYNC_LIMIT_US;
/** Short runs in a row after which what was learned from slow ones is forgotten. */
const FORGIVING_RUNS = 256;

interface Bucket {
  /** Mean of the runs on the loop; undefined before the first. */
  syncUs: number | undefined;
  shortestAsyncUs: number;
  /** Runs until the next try. */
  pause: number;
  nextPause: number;
  shortRuns: number;
}

/** One per session. Runs of similar input size are judged together. */
export class RunPolicy {
  readonly #buckets = new Map<number, Bucket>();

  maySync(inputBytes: number): boolean {
    const bucket = this.#bucket(inputBytes);
    if (bucket.syncUs !== undefined && bucket.syncUs <= SYNC_LIMIT_US) return true;
    if (bucket.shortestAsyncUs > PROBE_LIMIT_US) return false;
    if (bucket.pause === 0) return true;
    bucket.pause--;
    return false;
  }

  ranSync(inputBytes: number, us: number): void {
    const bucket = this.#bucket(inputBytes);
    const wasFast = bucket.syncUs !== undefined && bucket.syncUs <= SYNC_LIMIT_US;
    const sample = Math.min(us, LONGEST_SAMPLE_US);
    bucket.syncUs = wasFast && bucket.syncUs !== undefined ? bucket.syncUs + (sample - bucket.syncUs) * WEIGHT : sample;
    if (bucket.syncUs <= SYNC_LIMIT_US) {
      if (++bucket.shortRuns === FORGIVING_RUNS) bucket.nextPause = FIRST_PAUSE;
      return;
    }
    bucket.shortRuns = 0;
    bucket.pause = bucket.nextPause;
    bucket.nextPause = Math.min(bucket.nextPause * 2, LONGEST_PAUSE);
  }

  /** `us` holds the way to the other thread and back, and so is never less than the run itself. */
  ranAsync(inputBytes: number, us: number): void {
    const bucket = this.#bucket(inputBytes);
    bucket.shortestAsyncUs = Math.min(bucket.shortestAsyncUs, us);
  }

  #bucket(inputBytes: number): Bucket {
    const key = Math.ceil(Math.log2(inputBytes + 1));
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = {
        syncUs: undefined,
        shortestAsyncUs: Number.POSITIVE_INFINITY,
        pause: 0,
        nextPause: FIRST_PAUSE,
        shortRuns: 0,
      };
      this.#buckets.set(key, bucket);
    }
    return bucket;
  }
}
