/**
 * In-process PostgreSQL in a folder: PGlite with pgvector. Source: PGlite documentation. A lock file ensures that one
 * process opens the folder. Runs in a worker process, because statements block the thread.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { ServerError } from "@nereid/server/core/server-error";
import type { SqlParameter } from "./sql-filter.ts";
import { INDEX_SETTING, type SqlConnection, SqlError, type SqlRow } from "./sql-store.ts";

const OWNER_FILE = "nereid-owner";

/** @throws ServerError when the package is missing or another process has the folder open */
export async function openPglite(folder: string): Promise<SqlConnection> {
  const location = `pglite:${folder}`;
  const [{ PGlite }, { vector }] = await importPackages();
  mkdirSync(folder, { recursive: true });
  const release = own(folder, location);
  const database = await PGlite.create(join(folder, "data"), { extensions: { vector } }).catch((cause: unknown) => {
    release();
    throw new ServerError("unavailable", `${location} can not be opened: ${String(cause)}`, { cause });
  });
  await database.exec(INDEX_SETTING);
  return {
    location,
    async query(text: string, parameters: readonly SqlParameter[]): Promise<readonly SqlRow[]> {
      try {
        return (await database.query<SqlRow>(text, [...parameters])).rows;
      } catch (error) {
        const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
        throw typeof code === "string" ? new SqlError(code, String(message)) : error;
      }
    },
    async close() {
      await database.close();
      release();
    },
  };
}

type Packages = [typeof import("@electric-sql/pglite"), typeof import("@electric-sql/pglite-pgvector")];

async function importPackages(): Promise<Packages> {
  try {
    return await Promise.all([import("@electric-sql/pglite"), import("@electric-sql/pglite-pgvector")]);
  } catch (cause) {
    const names = "@electric-sql/pglite @electric-sql/pglite-pgvector";
    const text = `stores at pglite: need packages that are not installed here; run: npm install ${names}`;
    throw new ServerError("unavailable", text, { cause });
  }
}

/** A killed process leaves its lock file behind; the next one detects that it is gone. */
function own(folder: string, location: string): () => void {
  const path = join(folder, OWNER_FILE);
  const release = (): void => rmSync(path, { force: true });
  for (const isLast of [false, true]) {
    try {
      writeFileSync(path, String(process.pid), { flag: "wx" });
      process.once("exit", release);
      return release;
    } catch (error) {
      const owner = Number(tryRead(path));
      if (!isLast && !isAlive(owner)) release();
      else if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      else break;
    }
  }
  const owner = tryRead(path);
  throw new ServerError(
    "unavailable",
    `${location} is open in process ${owner}; one process at a time may use a folder`,
  );
}

function tryRead(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function isAlive(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
