/** What the manager remembers of a loaded model, and what it is told when it loads one. Types only. */
import type { AgentChain } from "./agents/agent-chain.ts";
import type { PolledModel } from "./source/model-sources.ts";
import type { ModelFiles } from "./source/repository-location.ts";

/** What is known of a model between two loads of it. */
export interface ModelRecord {
  readonly polled: PolledModel;
  /** Named by a user, not only pulled in by an ensemble. */
  isExplicit: boolean;
  /** Loaded with a configuration that came with the request, in place of the file's. */
  readonly isOverridden: boolean;
  /** What its versions were loaded from: those that have stayed through a reload keep the files of before. */
  readonly files: readonly ModelFiles[];
  /** Of an ensemble: what its plan rests on, of the models that it calls. */
  readonly stepsText: string;
  /** They hear of the unload. */
  readonly agents: AgentChain;
}

/** Why and from where a model is loaded. */
export interface LoadOrigin {
  readonly isExplicit: boolean;
  readonly isOverridden: boolean;
  readonly files: ModelFiles | undefined;
}
