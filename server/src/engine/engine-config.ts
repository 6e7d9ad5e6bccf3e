/** Bounds of an engine and its scheduling policy. Plain data. */

import type { CapacityPolicy } from "./plan/capacity-policy.ts";
import { NO_SPECULATION, type SpeculationConfig } from "./speculation/speculation-config.ts";

export interface EngineConfig {
  /** Sequences of one step. */
  readonly maxSequences: number;
  /** Tokens of one step. */
  readonly maxBatchTokens: number;
  /** Tokens of a prompt with its output, and of a prompt, where the model and the cache would allow more. */
  readonly maxSequenceLength?: number | undefined;
  readonly maxPromptLength?: number | undefined;
  readonly chunkedPrefill: boolean;
  readonly prefixReuse: boolean;
  /** States kept for prefix reuse by models with recurrent layers; undefined: one for each four sequences. */
  readonly maxSnapshots?: number | undefined;
  readonly policy: CapacityPolicy;
  /** Requests that may wait; 0 = any number. */
  readonly maxWaiting: number;
  readonly speculation: SpeculationConfig;
}

export const DEFAULT_ENGINE_CONFIG: EngineConfig = Object.freeze({
  maxSequences: 64,
  maxBatchTokens: 512,
  chunkedPrefill: true,
  prefixReuse: true,
  policy: "guaranteed_no_evict",
  maxWaiting: 0,
  speculation: NO_SPECULATION,
});

/** States that a model with recurrent layers keeps for prefix reuse. */
export function numSnapshotsOf({ prefixReuse, maxSnapshots, maxSequences }: EngineConfig): number {
  if (!prefixReuse) return 0;
  return maxSnapshots ?? Math.max(4, Math.ceil(maxSequences / 4));
}
