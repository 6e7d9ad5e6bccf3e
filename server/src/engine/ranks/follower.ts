/** The contract of a follower rank, as the leader sees it. */
import type { GroupIds } from "./rank-group.ts";

/** Its promises reject with the reason of its failure. */
export interface Follower {
  readonly rank: number;
  /** It has its GPU and the model's files. */
  readonly opened: Promise<void>;
  join(ids: GroupIds): void;
  readonly ready: Promise<void>;
  /** Rejects when it fails or is gone; never resolves. */
  readonly failed: Promise<never>;
  send(words: Int32Array): void;
  /** Announces the end and waits for its exit. */
  close(): Promise<void>;
}
