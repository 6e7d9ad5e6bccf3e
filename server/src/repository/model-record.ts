/** The manager's record of a loaded model, and the parameters of a load. Types only. */
import type { AgentChain } from "./agents/agent-chain.ts";
import type { PolledModel } from "./source/model-sources.ts";
import type { LocalizedModel } from "./source/repository-location.ts";

/** State of a model between two loads. */
export interface ModelRecord {
  readonly polled: PolledModel;
  /** Requested by a user, not only as part of an ensemble. */
  isExplicit: boolean;
  /** Loaded with a configuration from the load request, in place of the file's. */
  readonly isOverridden: boolean;
  /** Folders that its versions were loaded from: versions kept through a reload keep their old files. */
  readonly files: readonly LocalizedModel[];
  /** For an ensemble: the properties of called models that determine its plan. */
  readonly stepsText: string;
  /** Agents to notify of the unload. */
  readonly agents: AgentChain;
}

/** Reason and origin of a load. */
export interface LoadOrigin {
  readonly isExplicit: boolean;
  readonly isOverridden: boolean;
  readonly files: LocalizedModel | undefined;
}
