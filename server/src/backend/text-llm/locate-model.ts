/**
 * Finds the files of a model by a path or by the name of a repository of the Hugging Face hub, as `LLM(model=...)` of
 * TensorRT-LLM and vLLM take either. A repository that is not in the shared cache is downloaded.
 */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { resolve } from "node:path";
import type { Environment } from "../../core/environment.ts";
import { ServerError } from "../../core/server-error.ts";
import { Reporter } from "../../files/progress.ts";
import { ToolError } from "../../files/tool-error.ts";
import { cachedSnapshot } from "../../hub/cache.ts";
import { download } from "../../hub/download.ts";
import { parseRepoName } from "../../hub/names.ts";
import { hubSettings } from "../../hub/settings.ts";
import type { Logger } from "../../observe/log.ts";

const NUM_WORKERS = 8;
const DEFAULT_REVISION = "main";

export interface LocateOptions {
  /** Folders that a relative path may begin at, the working directory first. */
  readonly folders: readonly string[];
  readonly revision: string | undefined;
  readonly env: Environment;
  readonly log: Logger;
  /** Whether a folder holds all that is needed; a cached snapshot may be another tool's half. */
  readonly isComplete: (folder: string) => boolean;
}

/** An absolute path. @throws ServerError saying where was looked */
export async function locateModel(name: string, options: LocateOptions): Promise<string> {
  const paths = [...new Set(options.folders.map((folder) => resolve(folder, name)))];
  const found = paths.find((path) => existsSync(path));
  if (found !== undefined) return found;
  if (!/^[\w.-]+(?:\/[\w.-]+)?$/.test(name) || name.startsWith(".")) {
    throw new ServerError("not_found", `model '${name}': there is no ${paths.join(" and no ")}`);
  }
  try {
    return await fromHub(name, options);
  } catch (cause) {
    const reason = cause instanceof ToolError ? [cause.message, cause.fix].filter(Boolean).join(". ") : String(cause);
    throw new ServerError("not_found", `model '${name}': there is no ${paths.join(" and no ")}; ${reason}`, { cause });
  }
}

async function fromHub(name: string, { revision = DEFAULT_REVISION, env, log, isComplete }: LocateOptions) {
  const settings = hubSettings(env, homedir());
  const { repo } = parseRepoName(name, "model", settings.endpoint);
  const cached = await cachedSnapshot(settings.cacheFolder, repo, revision).catch(() => undefined);
  if (cached !== undefined && isComplete(cached)) return cached;
  if (!settings.isOffline) log.info("llm", `downloading ${repo.id} at '${revision}' from ${settings.endpoint}`);
  const { path } = await download({
    repo,
    revision,
    filter: { include: [], exclude: ["*/*", "consolidated*"], servingOnly: true },
    settings,
    localFolder: undefined,
    numWorkers: NUM_WORKERS,
    verify: false,
    dryRun: false,
    reporter: new Reporter({ mode: "quiet", command: "serve" }),
    signal: new AbortController().signal,
  });
  return path;
}
