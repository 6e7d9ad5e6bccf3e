/**
 * The contract between the repository and what may look at a model before it is loaded, replace its folder or refuse it.
 * An agent of one's own is a module `<repoagent-directory>/<name>/agent.js` (or .mjs) that exports `createRepositoryAgent`.
 */

/** A model as its configuration file names the agent. */
export interface AgentModel {
  readonly name: string;
  /** Absolute folder of the model: what an agent before this one put in its place, if one did. */
  readonly folder: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** All parts are optional. A rejection of `load` refuses the model; any other is only logged. */
export interface RepositoryAgent {
  /** Before the model is read. Gives another folder to load it from, or undefined to leave it where it is. */
  load?(model: AgentModel): Promise<string | undefined>;
  loadComplete?(model: AgentModel): Promise<void>;
  loadFail?(model: AgentModel): Promise<void>;
  unload?(model: AgentModel): Promise<void>;
  /** After the last request of the model has been answered. */
  unloadComplete?(model: AgentModel): Promise<void>;
}

/** What an agent's module exports as `createRepositoryAgent`. */
export type CreateRepositoryAgent = () => RepositoryAgent;
