/** Sizes and rules that the step planner keeps to. Plain data. */
import type { WindowRules } from "../kv/window-blocks.ts";
import type { CapacityPolicy } from "./capacity-policy.ts";

export interface PlannerConfig extends WindowRules {
  readonly numBlocks: number;
  /** Blocks of the host KV cache, which receives idle blocks; not used together with a window. */
  readonly numHostBlocks: number;
  /** Slots of states; absent: sequences have none. */
  readonly numStates?: number | undefined;
  /** How many of them, the last ones, keep states for others. */
  readonly numSnapshots?: number | undefined;
  readonly maxSequences: number;
  readonly prefixReuse: boolean;
  readonly policy: CapacityPolicy;
}
