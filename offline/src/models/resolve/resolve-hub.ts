/**
 * Finds a model of the Hugging Face hub: in the shared cache when all its files are there, otherwise it fetches them.
 * Knows no names: the caller has parsed them.
 */
import { existsSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import { cachedSnapshot } from "@nereid/server/hub/cache";
import { download } from "@nereid/server/hub/download";
import type { HubRepo } from "@nereid/server/hub/names";
import { type ChosenFiles, chooseFiles, FOLDER_FILES } from "../name/choose-files.ts";
import type { HubName } from "../name/model-name.ts";
import type { ResolveContext, ResolvedModel } from "./resolved-model.ts";

const NUM_WORKERS = 8;
const DEFAULT_REVISION = "main";
const SHORT_COMMIT = 7;

/** @throws ToolError that says where the model was looked for */
export async function resolveHub(name: string, hubName: HubName, context: ResolveContext): Promise<ResolvedModel> {
  const repo: HubRepo = { type: "model", id: hubName.id };
  const revision = hubName.revision ?? DEFAULT_REVISION;
  const { hub, refreshes } = context;
  if (!refreshes || hub.isOffline) {
    const found = await findCached(repo, revision, hubName.quantization, context);
    if (found !== undefined) return describe(name, repo, found.path, `in the cache ${hub.cacheFolder}`);
  }
  if (hub.isOffline) throw notCached(hubName, revision, context);
  const fetched = await fetchFiles(repo, revision, hubName.quantization, context).catch((error: unknown) => {
    throw withPlaces(error, hubName, context);
  });
  return describe(name, repo, fetched.path, `${hub.endpoint}/${repo.id} at ${fetched.commit.slice(0, SHORT_COMMIT)}`);
}

interface FoundFiles {
  readonly path: string;
  readonly commit: string;
}

function describe(name: string, { id }: HubRepo, path: string, where: string): ResolvedModel {
  return { name, kind: "model", path, origin: `${id} ${where.startsWith("in ") ? where : `from ${where}`}` };
}

/** Undefined when a file of the model is missing. */
async function findCached(
  repo: HubRepo,
  revision: string,
  quantization: string | undefined,
  { hub }: ResolveContext,
): Promise<{ readonly path: string } | undefined> {
  const snapshot = await cachedSnapshot(hub.cacheFolder, repo, revision).catch(() => undefined);
  if (snapshot === undefined) return undefined;
  const paths = (await readdir(snapshot, { recursive: true })).map((path) => path.replaceAll("\\", "/"));
  try {
    const chosen = chooseFiles(paths, quantization, repo.id);
    return isComplete(snapshot, chosen) ? { path: pathOf(snapshot, chosen) } : undefined;
  } catch {
    return undefined; // other files of the repository were fetched
  }
}

/** All shards that the index names, or all parts that the first one counts. */
function isComplete(snapshot: string, chosen: ChosenFiles): boolean {
  if (chosen.kind === "gguf") {
    const [first = ""] = chosen.paths;
    const count = /-of-(\d{5})\.gguf$/.exec(first)?.[1];
    return chosen.paths.length === Number(count ?? 1);
  }
  const index = join(snapshot, "model.safetensors.index.json");
  if (!existsSync(index)) return true;
  const { weight_map: files }: { weight_map?: Readonly<Record<string, string>> } = JSON.parse(
    readFileSync(index, "utf8"),
  );
  return [...new Set(Object.values(files ?? {}))].every((file) => existsSync(join(snapshot, file)));
}

function pathOf(snapshot: string, chosen: ChosenFiles): string {
  return chosen.kind === "folder" ? snapshot : join(snapshot, chosen.paths[0] ?? "");
}

async function fetchFiles(
  repo: HubRepo,
  revision: string,
  quantization: string | undefined,
  { hub, reporter, signal }: ResolveContext,
): Promise<FoundFiles> {
  const fixed = {
    repo,
    settings: hub,
    localFolder: undefined,
    numWorkers: NUM_WORKERS,
    verify: false,
    reporter,
    signal,
  };
  const everything = { include: [], exclude: [], servingOnly: false };
  const listed = await download({ ...fixed, revision, filter: everything, dryRun: true });
  const chosen = chooseFiles(
    listed.files.map(({ path }) => path),
    quantization,
    repo.id,
  );
  const include = chosen.kind === "gguf" ? chosen.paths : FOLDER_FILES;
  const exclude = chosen.kind === "gguf" ? [] : ["*/*", "consolidated*"];
  const filter = { include, exclude, servingOnly: false };
  const { path, commit = "" } = await download({ ...fixed, revision, filter, dryRun: false });
  return { path: pathOf(path, chosen), commit };
}

/** The hub's answer, and that nothing of that name is on this machine either. */
function withPlaces(error: unknown, { id }: HubName, { hub }: ResolveContext): unknown {
  if (!(error instanceof ToolError) || !/ answers 40[134]| is not open to/.test(error.message)) return error;
  const message = `${id} is neither here nor at ${hub.endpoint} (looked for ${resolve(id)}, then ${error.message})`;
  return new ToolError(message, { cause: error, ...(error.fix === undefined ? {} : { fix: error.fix }) });
}

function notCached({ id, quantization }: HubName, revision: string, { hub }: ResolveContext): ToolError {
  const what = quantization === undefined ? id : `${id}:${quantization}`;
  return new ToolError(
    `${what} at '${revision}' is not complete in ${hub.cacheFolder}, and the network may not be used`,
    {
      fix: `Fetch it with nereid pull ${what}, without --offline and HF_HUB_OFFLINE, or point HF_HOME at the cache that has it`,
    },
  );
}
