/**
 * A repository agent that was compiled for Triton, `libtritonrepoagent_<name>.so`, in a process of its own. The process
 * runs while models of the agent are there. A crash costs the load that it happens in. Source: tritonrepoagent.h.
 */
import type { Logger } from "../../observe/log.ts";
import type { Environment } from "../python/settings.ts";
import { AgentProcess } from "./agent-process.ts";
import { hostProgram } from "./host-program.ts";

const OPEN = 20;
const LOAD = 21;
const EVENT = 22;
/** Numbers of TRITONREPOAGENT_ActionType. */
const ACTIONS = { loadComplete: 1, loadFail: 2, unload: 3, unloadComplete: 4 } as const;
type Action = keyof typeof ACTIONS;

/** As the repository gives it to agents. */
export interface NativeAgentModel {
  readonly folder: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** The configuration of the folder; "": it has none. */
  readonly configJson: string;
}

export interface NativeAgentOptions {
  readonly name: string;
  /** Absolute path of the library. */
  readonly path: string;
  readonly environment: Environment;
  readonly log: Logger;
}

interface Known {
  readonly host: AgentProcess;
  readonly key: number;
}

export class NativeAgent {
  readonly #options: NativeAgentOptions;
  readonly #known = new Map<NativeAgentModel, Known>();
  #host: Promise<AgentProcess> | undefined;
  #nextKey = 1;

  constructor(options: NativeAgentOptions) {
    this.#options = options;
  }

  /** Another folder, or undefined. @throws ServerError when the agent refuses the model, or ends */
  async load(model: NativeAgentModel): Promise<string | undefined> {
    const host = await this.#running();
    const key = this.#nextKey++;
    this.#known.set(model, { host, key });
    const folder = await host.call(LOAD, (writer) => {
      writer.u32(key);
      writer.string(model.folder);
      writer.string(model.configJson);
      writer.strings(Object.keys(model.parameters));
      writer.strings(Object.values(model.parameters));
    });
    return folder === "" ? undefined : folder;
  }

  loadComplete(model: NativeAgentModel): Promise<void> {
    return this.#tell(model, "loadComplete");
  }

  loadFail(model: NativeAgentModel): Promise<void> {
    return this.#tell(model, "loadFail");
  }

  unload(model: NativeAgentModel): Promise<void> {
    return this.#tell(model, "unload");
  }

  unloadComplete(model: NativeAgentModel): Promise<void> {
    return this.#tell(model, "unloadComplete");
  }

  /** A process that has died knows nothing of its models any more: its end was an error of the load already. */
  async #tell(model: NativeAgentModel, action: Action): Promise<void> {
    const known = this.#known.get(model);
    if (known === undefined) return;
    const { host, key } = known;
    const isLast = action === "loadFail" || action === "unloadComplete";
    if (isLast) this.#known.delete(model);
    try {
      if (host.hasEnded) return;
      await host.call(EVENT, (writer) => {
        writer.u32(key);
        writer.u8(ACTIONS[action]);
      });
    } finally {
      if (isLast) this.#endUnused(host);
    }
  }

  #endUnused(host: AgentProcess): void {
    if ([...this.#known.values()].some((known) => known.host === host)) return;
    host.close();
    this.#host = undefined;
  }

  async #running(): Promise<AgentProcess> {
    const running = this.#host === undefined ? undefined : await this.#host.catch(() => undefined);
    if (running !== undefined && !running.hasEnded) return running;
    const started = this.#start();
    this.#host = started;
    return started;
  }

  async #start(): Promise<AgentProcess> {
    const { name, path, environment, log } = this.#options;
    const program = await hostProgram(environment);
    const host = new AgentProcess({ program, name, environment, log });
    try {
      await host.call(OPEN, (writer) => writer.string(path));
    } catch (error) {
      host.close();
      throw error;
    }
    return host;
  }
}
