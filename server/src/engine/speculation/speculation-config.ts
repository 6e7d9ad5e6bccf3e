/** Settings of speculative decoding. Plain data: it crosses a process boundary. */
export interface SpeculationConfig {
  /** Tokens drafted beyond the next one, at most; 0 = none. */
  readonly maxDraftTokens: number;
  /** Most last tokens that are looked up in what came before; 0 = no look-up. */
  readonly ngramSize: number;
}

export const NO_SPECULATION: SpeculationConfig = Object.freeze({ maxDraftTokens: 0, ngramSize: 0 });
