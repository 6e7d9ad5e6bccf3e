/** A response cache that lies elsewhere: it is asked and answers later, and where it fails nothing else does. Types only. */
import type { Tensor } from "../../core/tensor.ts";

export interface RemoteCacheStatistics {
  readonly numLookups: number;
  readonly numHits: number;
  /** Lookups and insertions that the cache did not do, for whatever reason. */
  readonly numFailures: number;
  readonly lookupUs: number;
  readonly insertionUs: number;
}

export interface RemoteResponseCache {
  /** Never rejects: a failure is a miss, and comes soon. */
  lookUp(key: string): Promise<readonly Tensor[] | undefined>;
  /** Takes what it needs of the tensors before it returns, and does the rest later. Never throws. */
  insert(key: string, outputs: readonly Tensor[]): void;
  statistics(): RemoteCacheStatistics;
}
