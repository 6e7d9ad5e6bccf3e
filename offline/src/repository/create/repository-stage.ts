/** Stages models beside a repository, examines them, and moves them into it when all would load. Knows no model. */
import { constants, existsSync } from "node:fs";
import { copyFile, mkdir, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { type AtomicFolder, moveFolder, openAtomicFolder } from "@nereid/server/files/atomic-output";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { diagnose } from "../check/doctor.ts";
import { type Finding, findingText } from "../check/finding.ts";

export interface StageTools {
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

/** Whether models of these `names` can be added. @throws ToolError */
export async function expectRoom(repository: string, names: readonly string[], replaces: boolean): Promise<void> {
  const there = await readdir(repository).catch(() => []);
  const taken = there.filter((name) => names.includes(name));
  if (taken.length === 0 || replaces) return;
  throw new ToolError(`${repository} has models of these names already: ${taken.join(", ")}`, {
    fix: "Name another repository, or give --force to replace these",
  });
}

/** Links names in the version folder to source files. Sub-folders hold nothing that is served. */
export async function filesToCopy(model: string, tokenizer: string): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const isFolder = (await stat(model)).isDirectory();
  if (!isFolder) files.set(basename(model), model);
  const hasOwnTokenizer = tokenizer === model; // a GGUF file, or one folder for both
  for (const folder of isFolder ? [tokenizer, model] : hasOwnTokenizer ? [] : [tokenizer]) {
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      const isWanted =
        folder === model || /^(tokenizer|special_tokens_map|chat_template|added_tokens|vocab|merges)/.test(name);
      if (isWanted && !name.startsWith(".") && (await stat(path)).isFile()) files.set(name, path);
    }
  }
  return files;
}

export async function totalBytes(paths: readonly string[]): Promise<number> {
  const sizes = await Promise.all(paths.map(async (path) => (await stat(path)).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

export async function copyAll(
  files: ReadonlyMap<string, string>,
  target: string,
  { reporter, signal }: StageTools,
): Promise<void> {
  if (files.size === 0) return;
  await mkdir(target, { recursive: true });
  const task = reporter.startTask({ task: "copy", unit: "bytes", total: await totalBytes([...files.values()]) });
  for (const [name, path] of files) {
    signal.throwIfAborted();
    await copyFile(path, join(target, name), constants.COPYFILE_FICLONE);
    task.add((await stat(path)).size, name);
  }
  task.end();
}

/** Notes about models that would load, as if they were in the repository already. @throws ToolError for others */
export async function examine(folder: string, repository: string, tools: StageTools): Promise<readonly Finding[]> {
  const { findings } = await diagnose([folder], tools.reporter, tools.signal);
  const placed = findings.map((finding) => ({ ...finding, file: finding.file.replace(folder, repository) }));
  const errors = placed.filter(({ severity }) => severity === "error");
  if (errors.length === 0) return placed;
  throw new ToolError(`The repository would not load:\n${errors.map(findingText).join("\n")}`, {
    fix: "Nothing was written",
  });
}

/** Beside the repository, or hidden inside an existing one, which may be the root of a disk. */
export function openStage(repository: string): Promise<AtomicFolder> {
  return openAtomicFolder(existsSync(repository) ? join(repository, "models") : repository, { existing: "replace" });
}

/** A new repository at once; in an existing one model by model, callers last, so that each is complete at any time. */
export async function show(folder: AtomicFolder, repository: string, names: readonly string[]): Promise<void> {
  if (folder.target === repository) return folder.commit();
  for (const name of names) await moveFolder(join(folder.path, name), join(repository, name));
}
