/**
 * How long the cache blocks of a request are worth keeping once it is over: a priority and a time for ranges of its
 * prompt and for what it generates. Pure; what a cache does with it is the cache's affair.
 */

/** Priority of blocks without a retention setting, or whose duration has passed. */
export const DEFAULT_RETENTION_PRIORITY = 35;

export interface BlockRetention {
  /** 0 to 100; blocks of lower priority go first. */
  readonly priority: number;
  /** From the last use on; infinite = for good. Afterwards the priority is the default. */
  readonly durationMs: number;
}

export interface RetentionRange extends BlockRetention {
  /** Tokens of the prompt. */
  readonly start: number;
  /** Infinite = to the end of the prompt. */
  readonly end: number;
}

export interface Retention {
  readonly ranges: readonly RetentionRange[];
  /** Retention of the blocks that begin after the prompt. */
  readonly decode: BlockRetention;
}

/** The range that holds a block's first token speaks for the block; undefined when none does. */
export function blockRetention(
  retention: Retention,
  firstToken: number,
  promptLength: number,
): BlockRetention | undefined {
  if (firstToken >= promptLength) return retention.decode;
  return retention.ranges.find(({ start, end }) => start <= firstToken && firstToken < end);
}
