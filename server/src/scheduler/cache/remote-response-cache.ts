/** Interface of a remote response cache: asynchronous, and its failures never fail a request. Types only. */
import type { Tensor } from "../../core/tensor.ts";

export interface RemoteCacheStatistics {
  readonly numLookups: number;
  readonly numHits: number;
  /** Lookups and insertions that the cache did not complete. */
  readonly numFailures: number;
  readonly lookupUs: number;
  readonly insertionUs: number;
}

export interface RemoteResponseCache {
  /** Never rejects: a failure counts as a miss, after a short time limit. */
  lookUp(key: string): Promise<readonly Tensor[] | undefined>;
  /** Copies the tensors it needs before it returns, and completes later. Never throws. */
  insert(key: string, outputs: readonly Tensor[]): void;
  statistics(): RemoteCacheStatistics;
}
