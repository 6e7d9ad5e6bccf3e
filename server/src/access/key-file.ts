/** The file of API keys on disk: read at the start, and again whenever it changes. */
import { readFileSync, statSync } from "node:fs";
import { invalidArgument } from "../core/server-error.ts";
import type { Logger } from "../observe/log.ts";
import { type KeyRecord, parseKeyFile } from "./key-record.ts";

/** Files that are mounted, renamed into place or linked are all seen by their status, not by events of a folder. */
const POLL_MS = 1000;

/** A changed file that cannot be read leaves the keys as they are, and one error in the log. @throws ServerError at the start */
export function watchKeyFile(path: string, log: Logger, update: (records: readonly KeyRecord[]) => void): Disposable {
  // The status comes before the text: a change between the two is read again, never missed.
  let seen = statusOf(path);
  update(readKeys(path));
  const timer = setInterval(() => {
    const status = statusOf(path);
    if (status === seen) return;
    seen = status;
    reread(path, log, update);
  }, POLL_MS).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

function reread(path: string, log: Logger, update: (records: readonly KeyRecord[]) => void): void {
  try {
    const records = readKeys(path);
    update(records);
    log.info("access", `${path}: ${records.length} API keys are in force`);
  } catch (error) {
    log.error("access", `${error instanceof Error ? error.message : String(error)}; the keys stay as they were`);
  }
}

/** Differs after every change; "" for a file that is not there, or out of reach. */
function statusOf(path: string): string {
  try {
    const { ino, size, mtimeMs, ctimeMs } = statSync(path);
    return [ino, size, mtimeMs, ctimeMs].join(" ");
  } catch {
    return "";
  }
}

function readKeys(path: string): readonly KeyRecord[] {
  return parseKeyFile(readText(path), path);
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw invalidArgument(`API key file ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
