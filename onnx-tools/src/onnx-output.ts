/** Atomic output of ONNX files with external data. It knows no content. */
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { PARTIAL_SUFFIX } from "@nereid/server/core/unfinished-name";
import { removeLeftovers, syncFolder } from "@nereid/server/files/atomic-output";
import { TargetLock } from "@nereid/server/files/target-lock";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import { readExternalData } from "@nereid/server/formats/onnx/model";
import { dataBeside } from "./sessions.ts";

/** Protobuf messages end at 2 GiB; larger models need external data. */
export const MAX_MODEL_BYTES: number = 2 ** 31 - 2 ** 20;

const OWN_FILES = /^(text_|vision_)?model\.onnx(_data)?$/;

/** Output of an earlier export may be replaced, anything else may not. */
export async function existingOnnxOutput(folder: string): Promise<"replace" | "refuse"> {
  const names = await readdir(folder).catch(() => []);
  return names.every((name) => OWN_FILES.test(name)) ? "replace" : "refuse";
}

/**
 * Makes one file in several steps, each into a hidden temporary file. The last one replaces the target when `make`
 * succeeds. All others are removed in every case.
 */
export async function makeFile(target: string, make: (scratch: () => string) => Promise<string>): Promise<void> {
  const path = resolve(target);
  await using _lock = await TargetLock.acquire(path);
  await removeLeftovers(path);
  const made: string[] = [];
  const scratch = (): string => {
    const name = join(dirname(path), `.${basename(path)}${PARTIAL_SUFFIX}-${randomUUID()}`);
    made.push(name, dataBeside(name));
    return name;
  };
  try {
    await mkdir(dirname(path), { recursive: true });
    const finished = await make(scratch);
    const file = await open(finished, "r");
    await file.sync().finally(() => file.close());
    await rename(finished, path);
    await syncFolder(dirname(path));
  } catch (error) {
    throw fileError("write", path, error);
  } finally {
    await Promise.all(made.map((name) => rm(name, { force: true })));
    await removeUnusedWeights(path);
  }
}

/** External data file of the target. The target stores its name, which no other file will ever have. */
export function weightsFor(target: string): string {
  return `${resolve(target)}_data-${randomUUID().slice(0, 8)}`;
}

const WEIGHTS = /_data-[0-9a-f]{8}$/;

/** Removes external data of replaced models and of killed runs. */
async function removeUnusedWeights(path: string): Promise<void> {
  const references = await readExternalData(path).catch(() => []);
  const used = new Set(references.map(({ entries }) => new Map(entries).get("location")));
  const names = await readdir(dirname(path)).catch(() => []);
  const own = names.filter((name) => WEIGHTS.test(name) && name.replace(WEIGHTS, "") === basename(path));
  for (const name of own) if (!used.has(name)) await rm(join(dirname(path), name), { force: true });
}

/** Bytes of a model and its external data. @throws ToolError when there is no model */
export async function modelBytes(path: string): Promise<number> {
  const found = await stat(path).catch((error: unknown) => {
    throw fileError("read", path, error);
  });
  if (!found.isFile()) throw new ToolError(`Cannot read ${path}: expected an ONNX file`);
  const references = await readExternalData(path).catch((cause: unknown) => {
    throw new ToolError(`${path}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  });
  const locations = new Set(references.map(({ entries }) => new Map(entries).get("location") ?? ""));
  let numBytes = found.size;
  for (const location of locations) {
    const beside = await stat(join(dirname(path), location)).catch(() => undefined);
    numBytes += beside?.isFile() === true ? beside.size : 0;
  }
  return numBytes;
}
