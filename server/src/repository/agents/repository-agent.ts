/**
 * Interface of repository agents, which may inspect, relocate or refuse a model before it is loaded. A custom agent is
 * a module `<repoagent-directory>/<name>/agent.js` (or .mjs) that exports `createRepositoryAgent`, or a library
 * `libtritonrepoagent_<name>.so` in that folder. Source: Triton documentation, "Repository Agent".
 */

/** A model as its configuration file names the agent. */
export interface AgentModel {
  readonly name: string;
  /** Absolute folder of the model, as relocated by the agents before this one. */
  readonly folder: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** The configuration file of the folder, as JSON; "": there is none. */
  readonly configJson: string;
}

/** All methods are optional. A rejection of `load` refuses the model; any other is only logged. */
export interface RepositoryAgent {
  /** Called before the model is read. Returns another folder to load it from, or undefined to keep this one. */
  load?(model: AgentModel): Promise<string | undefined>;
  loadComplete?(model: AgentModel): Promise<void>;
  loadFail?(model: AgentModel): Promise<void>;
  unload?(model: AgentModel): Promise<void>;
  /** Called after the last request of the model was answered. */
  unloadComplete?(model: AgentModel): Promise<void>;
}

/** Type of an agent module's export `createRepositoryAgent`. */
export type CreateRepositoryAgent = () => RepositoryAgent;
