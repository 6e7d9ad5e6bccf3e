/** Resolves repository agents by name: built-in ones, then modules and libraries in the folder of `--repoagent-directory`. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ServerError } from "../../core/server-error.ts";
import { isSafeModelName } from "../source/path-containment.ts";
import { createChecksumAgent } from "./checksum-agent.ts";
import type { CreateRepositoryAgent, RepositoryAgent } from "./repository-agent.ts";

const FILES = ["agent.js", "agent.mjs"];

/** Makes the agent of a library. */
export type OpenAgentLibrary = (name: string, path: string) => RepositoryAgent;

export interface FoundAgent {
  readonly name: string;
  /** "<built in>" or the file of its module. */
  readonly path: string;
  readonly agent: RepositoryAgent;
}

export class AgentFinder {
  readonly #directory: string;
  readonly #openLibrary: OpenAgentLibrary | undefined;
  readonly #found = new Map<string, FoundAgent>([
    ["checksum", { name: "checksum", path: "<built in>", agent: createChecksumAgent() }],
  ]);
  readonly #used = new Set<string>();

  constructor(directory: string, openLibrary?: OpenAgentLibrary) {
    this.#directory = directory;
    this.#openLibrary = openLibrary;
  }

  /** @throws ServerError not_found when there is no such agent, internal when its module does not work */
  async find(name: string): Promise<RepositoryAgent> {
    const known = this.#found.get(name) ?? (await this.#load(name));
    this.#found.set(name, known);
    this.#used.add(name);
    return known.agent;
  }

  /** Agents that models have requested, by name. */
  used(): readonly FoundAgent[] {
    return [...this.#used].sort().flatMap((name) => this.#found.get(name) ?? []);
  }

  async #load(name: string): Promise<FoundAgent> {
    const folder = join(this.#directory, name);
    const files = this.#openLibrary === undefined ? FILES : [...FILES, `libtritonrepoagent_${name}.so`];
    const file = isSafeModelName(name) ? files.find((each) => existsSync(join(folder, each))) : undefined;
    if (file === undefined) {
      const text = `unable to find repository agent '${name}', searched: ${files.join(" or ")} in ${folder}`;
      throw new ServerError("not_found", text);
    }
    const path = join(folder, file);
    const library = FILES.includes(file) ? undefined : this.#openLibrary?.(name, path);
    return { name, path, agent: library ?? (await agentOf(name, path)) };
  }
}

async function agentOf(name: string, path: string): Promise<RepositoryAgent> {
  try {
    const module = (await import(pathToFileURL(path).href)) as { createRepositoryAgent?: CreateRepositoryAgent };
    if (typeof module.createRepositoryAgent === "function") return module.createRepositoryAgent();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServerError("internal", `repository agent '${name}' of ${path} failed: ${reason}`, { cause: error });
  }
  throw new ServerError("internal", `repository agent '${name}': ${path} exports no function createRepositoryAgent`);
}
