/** The three stores over the test server, with caches in a folder that is removed when the test ends. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "@nereid/server/observe/log";
import type { RemoteRepository } from "@nereid/server/repository/source/remote-repository";
import type { StoresEnvironment } from "./environment.ts";
import { ACCOUNT, AZURE_KEY, BUCKET, type Dialect, ObjectServer, S3_KEYS } from "./object-server.test-support.ts";
import { openRepository } from "./open-repository.ts";

export const DIALECTS: readonly Dialect[] = ["s3", "gs", "as"];

export interface TestStore {
  readonly server: ObjectServer;
  readonly url: string;
  readonly env: StoresEnvironment;
  readonly cacheFolder: string;
  readonly lines: string[];
  open(options?: {
    readonly isWatched?: boolean;
    readonly env?: StoresEnvironment;
    readonly url?: string;
  }): Promise<RemoteRepository>;
}

export async function openTestStore(t: TestContext, dialect: Dialect, path = "repo"): Promise<TestStore> {
  const server = await ObjectServer.start(dialect);
  t.after(() => server[Symbol.asyncDispose]());
  const cacheFolder = temporaryFolder(t);
  const env = environmentOf(dialect, server, cacheFolder);
  const url = serverAddress(dialect, server, path);
  const lines: string[] = [];
  const sink = { out: (line: string) => void lines.push(line), err: (line: string) => void lines.push(line) };
  const log = new ServerLog(DEFAULT_LOG_SETTINGS, { sink });
  return {
    server,
    url,
    env,
    cacheFolder,
    lines,
    async open(options = {}) {
      const repository = await openRepository({
        url: options.url ?? url,
        env: options.env ?? env,
        log,
        isWatched: options.isWatched ?? false,
        firstPauseMs: 1,
        arrangeModel: async () => undefined,
      });
      t.after(() => repository.close());
      return repository;
    },
  };
}

export function serverAddress(dialect: Dialect, server: Pick<ObjectServer, "endpoint">, path: string): string {
  if (dialect === "s3") return `s3://${server.endpoint}/${BUCKET}/${path}`;
  return dialect === "gs" ? `gs://${BUCKET}/${path}` : `as://${ACCOUNT}/${BUCKET}/${path}`;
}

export function environmentOf(
  dialect: Dialect,
  server: Pick<ObjectServer, "endpoint">,
  cacheFolder: string,
): Readonly<Record<string, string>> {
  const common = { NEREID_MODEL_CACHE: cacheFolder, NEREID_STORE_TIMEOUT_SECONDS: "1" };
  if (dialect === "s3") {
    return { ...common, AWS_ACCESS_KEY_ID: S3_KEYS.keyId, AWS_SECRET_ACCESS_KEY: S3_KEYS.secret };
  }
  if (dialect === "gs") return { ...common, STORAGE_EMULATOR_HOST: server.endpoint };
  const endpoint = `BlobEndpoint=${server.endpoint}`;
  return { ...common, AZURE_STORAGE_CONNECTION_STRING: `AccountName=${ACCOUNT};AccountKey=${AZURE_KEY};${endpoint}` };
}

export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "nereid-stores-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Path to text of all files in a folder, "" for empty folders. */
export function filesIn(folder: string): Record<string, string> {
  const found: [string, string][] = [];
  const visit = (path: string): void => {
    const names = readdirSync(join(folder, path));
    if (names.length === 0 && path !== "") found.push([`${path}/`, ""]);
    for (const name of names) {
      const inner = path === "" ? name : `${path}/${name}`;
      if (statSync(join(folder, inner)).isDirectory()) visit(inner);
      else found.push([inner, readFileSync(join(folder, inner), "utf8")]);
    }
  };
  visit("");
  return Object.fromEntries(found.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Model folders that are on the disk now. */
export function liveFolders(cacheFolder: string): string[] {
  return readdirSync(cacheFolder).filter((name) => name.startsWith("live-"));
}

export function contents(cacheFolder: string): string[] {
  return Object.keys(filesIn(join(cacheFolder, "objects")));
}
