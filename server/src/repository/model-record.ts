/** What the manager remembers of a loaded model, and what it is told when it loads one. Types only. */
import type { AgentChain } from "./agents/agent-chain.ts";
import type { PolledModel } from "./model-sources.ts";

/** What is known of a model between two loads of it. */
export interface ModelRecord {
  readonly polled: PolledModel;
  /** Named by a user, not only pulled in by an ensemble. */
  isExplicit: boolean;
  /** Loaded with a configuration that the next plain load forgets. */
  readonly isOverridden: boolean;
  /** Lives while the model was sent with its load request. */
  readonly overrideFolder: Disposable | undefined;
  /** They hear of the unload. */
  readonly agents: AgentChain;
}

/** Why and from where a model is loaded. */
export interface LoadOrigin {
  readonly isExplicit: boolean;
  readonly isOverridden: boolean;
  /** The files that came with the request. */
  readonly folder: Disposable | undefined;
}
