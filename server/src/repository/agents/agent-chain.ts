/**
 * The repository agents of one model load. They are called in configuration order before an event, and in reverse order
 * after it. Source: Triton documentation, "Repository Agent".
 */
import type { ModelConfig } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { configJsonOf } from "./agent-config.ts";
import type { AgentModel, RepositoryAgent } from "./repository-agent.ts";

interface Link {
  readonly name: string;
  readonly agent: RepositoryAgent;
  readonly model: AgentModel;
}

type Notice = "loadComplete" | "loadFail" | "unload" | "unloadComplete";

export interface AgentChainOptions {
  readonly find: (name: string) => Promise<RepositoryAgent>;
  readonly log: Logger;
}

export class AgentChain {
  readonly #links: Link[] = [];
  readonly #log: Logger;
  /** Folder to load the model from. */
  readonly folder: string;

  private constructor(links: Link[], folder: string, log: Logger) {
    this.#links = links;
    this.folder = folder;
    this.#log = log;
  }

  /** Asks all agents that `config`, the model's own file, names. @throws ServerError when one refuses the model */
  static async load(
    { find, log }: AgentChainOptions,
    config: Pick<ModelConfig, "name" | "model_repository_agents">,
    folder: string,
  ): Promise<AgentChain> {
    const links: Link[] = [];
    let current = folder;
    try {
      for (const { name, parameters } of config.model_repository_agents?.agents ?? []) {
        const agent = await find(name);
        const model: AgentModel = { name: config.name, folder: current, parameters, configJson: configJsonOf(current) };
        links.push({ name, agent, model });
        current = (await agent.load?.(model)) ?? current;
      }
    } catch (error) {
      await new AgentChain(links, current, log).tell("loadFail");
      throw ServerError.from(error);
    }
    return new AgentChain(links, current, log);
  }

  /** The model where the agents have put it; undefined: `from`, where it was. @throws what `read` throws: a failed load */
  async readMoved<T>(from: string, read: (folder: string) => T): Promise<T | undefined> {
    if (this.folder === from) return undefined;
    try {
      return read(this.folder);
    } catch (error) {
      await this.tell("loadFail");
      throw error;
    }
  }

  /** Never rejects: a failing agent cannot undo an event that has happened. */
  async tell(notice: Notice): Promise<void> {
    const links = notice === "unload" ? this.#links : [...this.#links].reverse();
    for (const { name, agent, model } of links) {
      try {
        await agent[notice]?.(model);
      } catch (error) {
        const text = `agent '${name}' of model '${model.name}' failed at ${notice}: ${ServerError.from(error).message}`;
        this.#log.error("repository_agent", text);
      }
    }
  }
}
