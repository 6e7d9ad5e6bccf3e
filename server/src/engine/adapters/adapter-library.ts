/**
 * The adapters that requests may name: folders of the model's own, tasks from files, and tasks that requests brought. Finds
 * them, and keeps them in memory by way of the cache. It knows no sequences.
 */
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { LoraAdapter, LoraTargets } from "../../formats/lora/lora-adapter.ts";
import { inspectPeft, readPeft } from "../../formats/lora/peft.ts";
import { parseTrtllmLora } from "../../formats/trtllm/lora.ts";
import { readTrtllmLora } from "../../formats/trtllm/lora-files.ts";
import type { AdapterFormat, AdapterMemory } from "../step-runner.ts";
import { AdapterCache, type HeldAdapter } from "./adapter-cache.ts";
import type { AdapterChoice, AdapterSpec } from "./adapter-choice.ts";
import { folderBelow, stampOf } from "./adapter-folder.ts";

/** Sub-folders of one folder: more are a mistake. */
const MAX_FOLDERS = 100_000;
const MAX_TASK_ID: bigint = 2n ** 64n - 1n;

interface Folders {
  /** PEFT adapters by name. */
  readonly named: ReadonlyMap<string, string>;
  /** Adapters of two .npy files (TensorRT-LLM layout) by task id. */
  readonly tasks: ReadonlyMap<string, string>;
}

interface Found {
  readonly key: string;
  /** For messages. */
  readonly title: string;
  readonly read: () => Promise<LoraAdapter>;
}

export class AdapterLibrary {
  readonly cache: AdapterCache;
  readonly #targets: LoraTargets;
  readonly #format: AdapterFormat;
  readonly #folders: Folders;
  readonly #spec: AdapterSpec;

  private constructor(memory: AdapterMemory, spec: AdapterSpec, folders: Folders) {
    this.cache = new AdapterCache(memory, spec);
    this.#targets = memory.targets;
    this.#format = memory.format ?? peftFormat(memory.targets);
    this.#folders = folders;
    this.#spec = spec;
  }

  /** Checks every folder and loads the tasks. @throws ServerError naming the adapter and what is wrong with it */
  static async open(memory: AdapterMemory, spec: AdapterSpec): Promise<AdapterLibrary> {
    const folders = {
      named: new Map([...(await subFolders(spec.root)), ...spec.folders]),
      tasks: await taskFolders(spec.prefetch),
    };
    const library = new AdapterLibrary(memory, spec, folders);
    for (const [name, path] of folders.named) await library.#inspect(name, path, spec.maxRank);
    for (const id of folders.tasks.keys()) {
      library.release(await library.hold({ kind: "task", id: BigInt(id) }));
    }
    return library;
  }

  get names(): readonly string[] {
    return [...this.#folders.named.keys()];
  }

  /** Holds an adapter until `release`. @throws ServerError when it is not known, or cannot be loaded */
  async hold(choice: AdapterChoice): Promise<HeldAdapter> {
    const { key, read, title } = (await this.#findBelowRoot(choice)) ?? this.#find(choice);
    try {
      return await this.cache.acquire(key, read);
    } catch (cause) {
      if (cause instanceof ServerError) throw cause;
      throw refusal(title, cause);
    }
  }

  release(held: HeldAdapter): void {
    this.cache.release(held);
  }

  close(): void {
    this.cache.close();
  }

  async #inspect(name: string, path: string, maxRank: number): Promise<void> {
    const summary = await this.#format.inspect(path).catch((cause: unknown) => {
      throw refusal(`adapter '${name}'`, cause);
    });
    if (summary.maxRank <= maxRank) return;
    const why = `has rank ${summary.maxRank}, expected at most ${maxRank}: raise lora_cache_max_adapter_size`;
    throw invalidArgument(`adapter '${name}' ${why}`);
  }

  #find(choice: AdapterChoice): Found {
    if (choice.kind === "task") return this.#findTask(choice);
    const name = choice.kind === "name" ? choice.text : this.#nameAt(choice.text);
    const path = name === undefined ? undefined : this.#folders.named.get(name);
    if (path === undefined) {
      const known = this.names.slice(0, 16).join(", ") || "none";
      const what = choice.kind === "name" ? "adapter is named" : "adapter of this model lies at";
      throw invalidArgument(`no ${what} '${choice.text.slice(0, 200)}', known are: ${known}`);
    }
    return { key: `name:${name}`, title: `adapter '${name}'`, read: () => this.#format.read(path) };
  }

  /**
   * An adapter that came to `lora_dir` after the start, by its folder. Undefined for any other choice. A folder that has
   * changed is another adapter. @throws ServerError for a folder elsewhere
   */
  async #findBelowRoot({ kind, ...choice }: AdapterChoice): Promise<Found | undefined> {
    const { requestRoot, maxRank } = this.#spec;
    const root = requestRoot ?? this.#spec.root;
    if (kind !== "path" || !("text" in choice) || root === undefined) return undefined;
    if (this.#nameAt(choice.text) !== undefined) return undefined;
    const path = await folderBelow(root, choice.text);
    const title = `adapter at '${choice.text}'`;
    const read = async (): Promise<LoraAdapter> => {
      await this.#inspect(choice.text, path, maxRank);
      return this.#format.read(path);
    };
    return { key: `path:${path}:${await stampOf(path)}`, title, read };
  }

  #nameAt(path: string): string | undefined {
    const wanted = resolve(path);
    return [...this.#folders.named].find(([, folder]) => resolve(folder) === wanted)?.[0];
  }

  #findTask({ id, matrices }: AdapterChoice & { readonly kind: "task" }): Found {
    if (id < 0n || id > MAX_TASK_ID) throw invalidArgument(`lora_task_id is ${id}, expected 0 to 2^64 - 1`);
    const key = `task:${id}`;
    const title = `LoRA task ${id}`;
    const folder = this.#folders.tasks.get(String(id));
    if (matrices !== undefined) {
      return { key, title, read: () => Promise.resolve().then(() => parseTrtllmLora(matrices, this.#targets)) };
    }
    if (folder !== undefined) return { key, title, read: () => readTrtllmLora(folder, this.#targets) };
    if (this.cache.has(key)) return { key, title, read: () => Promise.reject(notCached(id)) };
    throw notCached(id);
  }
}

function peftFormat(targets: LoraTargets): AdapterFormat {
  return { inspect: (path) => inspectPeft(path, targets), read: (path) => readPeft(path, targets) };
}

/** The text that clients of TensorRT-LLM look for. */
function notCached(id: bigint): ServerError {
  return invalidArgument(`LoRA task ${id} not found in cache. Please send LoRA weights with request`);
}

function refusal(title: string, cause: unknown): ServerError {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new ServerError("invalid_argument", `${title} cannot be loaded: ${message}`, { cause });
}

async function subFolders(root: string | undefined): Promise<(readonly [name: string, path: string])[]> {
  if (root === undefined) return [];
  const entries = await readdir(root, { withFileTypes: true }).catch((cause: unknown) => {
    throw new ServerError("invalid_argument", `${root}: expected a folder of adapters`, { cause });
  });
  if (entries.length > MAX_FOLDERS)
    throw invalidArgument(`${root}: expected at most ${MAX_FOLDERS} entries, got ${entries.length}`);
  const folders = entries.filter((entry) => !entry.isFile() && !entry.name.startsWith("."));
  return folders.map(({ name }) => [name, join(root, name)] as const).sort(([a], [b]) => (a < b ? -1 : 1));
}

async function taskFolders(root: string | undefined): Promise<ReadonlyMap<string, string>> {
  const folders = await subFolders(root);
  const tasks = folders.filter(([name]) => /^\d{1,20}$/.test(name));
  return new Map(tasks.map(([name, path]) => [String(BigInt(name)), path]));
}
