/** Writes the five models that serve a language model, filled in and examined: they appear when all of them would load. */
import { constants, existsSync } from "node:fs";
import { copyFile, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { type AtomicFolder, moveFolder, openAtomicFolder } from "../atomic-output.ts";
import { openDecoder } from "../convert-checkpoint.ts";
import { requireFreeBytes } from "../disk-space.ts";
import type { Reporter } from "../progress.ts";
import { findPlaceholders } from "../template-text.ts";
import { ToolError } from "../tool-error.ts";
import { diagnose } from "./doctor.ts";
import { type Finding, findingText } from "./finding.ts";
import { fillRepositoryFile, repositoryValues } from "./repository-values.ts";
import { TEMPLATE_MODELS, templateFolder } from "./template-folder.ts";

export interface InitOptions {
  /** A folder with a model, an engine, or a GGUF file. */
  readonly modelDir: string;
  /** Undefined: where the model is. */
  readonly tokenizerDir: string | undefined;
  readonly repository: string;
  readonly maxBatchSize: number;
  readonly isDecoupled: boolean;
  readonly others: ReadonlyMap<string, string>;
  /** Into the repository, so that it can be moved as it is. */
  readonly copiesModel: boolean;
  /** Models of the same names that are there already give way. */
  readonly replaces: boolean;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface InitResult {
  readonly repository: string;
  readonly models: readonly string[];
  /** What is worth knowing of a repository that will load. */
  readonly findings: readonly Finding[];
}

/** @throws ToolError: then nothing has changed */
export async function initRepository(options: InitOptions): Promise<InitResult> {
  const model = resolve(options.modelDir);
  const repository = resolve(options.repository);
  const opened = await openDecoder(model);
  await opened.tensors.close();
  const tokenizer = await findTokenizer(options.tokenizerDir, model);
  await expectRoom(repository, options.replaces);
  const copies = options.copiesModel ? await filesToCopy(model, tokenizer) : new Map<string, string>();
  await requireFreeBytes(repository, await totalBytes([...copies.values()]));
  await using folder = await openStage(repository);
  await copyAll(copies, join(folder.path, "tensorrt_llm", "1"), options);
  await writeModels(folder.path, options, {
    engineDir: options.copiesModel ? "1" : model,
    tokenizerDir: options.copiesModel ? "../tensorrt_llm/1" : tokenizer,
  });
  const findings = await examine(folder.path, options);
  options.signal.throwIfAborted();
  await show(folder, repository);
  return { repository, models: TEMPLATE_MODELS, findings };
}

/** The templates as they are, for those who fill them in by hand or by script. @throws ToolError */
export async function copyTemplates(repository: string, replaces: boolean): Promise<InitResult> {
  const target = resolve(repository);
  await expectRoom(target, replaces);
  await using folder = await openStage(target);
  for (const name of TEMPLATE_MODELS) {
    await mkdir(join(folder.path, name, "1"), { recursive: true });
    await copyFile(join(templateFolder(), name, "config.pbtxt"), join(folder.path, name, "config.pbtxt"));
  }
  await show(folder, target);
  return { repository: target, models: TEMPLATE_MODELS, findings: [] };
}

async function findTokenizer(given: string | undefined, model: string): Promise<string> {
  const isFolder = (await stat(model)).isDirectory();
  const folder = resolve(given ?? (isFolder ? model : dirname(model)));
  if (existsSync(join(folder, "tokenizer.json"))) return folder;
  throw new ToolError(`There is no tokenizer.json in ${folder}`, {
    fix: "Give --tokenizer with the folder of the model's Hugging Face tokenizer; where there is only tokenizer.model, save it once with transformers' AutoTokenizer",
  });
}

async function namesIn(repository: string): Promise<string[]> {
  return readdir(repository).catch(() => []);
}

async function expectRoom(repository: string, replaces: boolean): Promise<void> {
  const taken = (await namesIn(repository)).filter((name) => TEMPLATE_MODELS.includes(name));
  if (taken.length === 0 || replaces) return;
  throw new ToolError(`${repository} has models of these names already: ${taken.join(", ")}`, {
    fix: "Name another repository, or give --force to replace these",
  });
}

/** Names in the version folder by the files they come from. Sub-folders hold nothing that is served. */
async function filesToCopy(model: string, tokenizer: string): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const isFolder = (await stat(model)).isDirectory();
  if (!isFolder) files.set(basename(model), model);
  for (const folder of isFolder ? [tokenizer, model] : [tokenizer]) {
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      const isWanted =
        folder === model || /^(tokenizer|special_tokens_map|chat_template|added_tokens|vocab|merges)/.test(name);
      if (isWanted && !name.startsWith(".") && (await stat(path)).isFile()) files.set(name, path);
    }
  }
  return files;
}

async function totalBytes(paths: readonly string[]): Promise<number> {
  const sizes = await Promise.all(paths.map(async (path) => (await stat(path)).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

async function copyAll(
  files: ReadonlyMap<string, string>,
  target: string,
  { reporter, signal }: InitOptions,
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

async function writeModels(
  folder: string,
  { maxBatchSize, isDecoupled, others }: InitOptions,
  dirs: { readonly engineDir: string; readonly tokenizerDir: string },
): Promise<void> {
  const values = repositoryValues({ ...dirs, maxBatchSize, isDecoupled, others });
  const known = new Set<string>();
  for (const name of TEMPLATE_MODELS) {
    const template = await readFile(join(templateFolder(), name, "config.pbtxt"), "utf8");
    for (const placeholder of findPlaceholders(template)) known.add(placeholder.name);
    await mkdir(join(folder, name, "1"), { recursive: true });
    await writeFile(join(folder, name, "config.pbtxt"), fillRepositoryFile(template, values));
  }
  const unknown = [...others.keys()].filter((key) => !known.has(key));
  if (unknown.length === 0) return;
  throw new ToolError(`There are no placeholders called ${unknown.join(", ")}`, {
    fix: `See nereid fill-template --list ${templateFolder()}`,
  });
}

async function examine(folder: string, { reporter, signal, repository }: InitOptions): Promise<readonly Finding[]> {
  const { findings } = await diagnose([folder], reporter, signal);
  const placed = findings.map((finding) => ({ ...finding, file: finding.file.replace(folder, resolve(repository)) }));
  const errors = placed.filter(({ severity }) => severity === "error");
  if (errors.length === 0) return placed;
  throw new ToolError(`The repository would not load:\n${errors.map(findingText).join("\n")}`, {
    fix: "Nothing was written",
  });
}

/** Beside the repository, or hidden inside of one that is there: it may be the root of a disk of its own. */
function openStage(repository: string): Promise<AtomicFolder> {
  return openAtomicFolder(existsSync(repository) ? join(repository, "models") : repository, { existing: "replace" });
}

/** The repository at once; beside other models one after the other, callers last: each is whole whenever one looks. */
async function show(folder: AtomicFolder, repository: string): Promise<void> {
  if (folder.target === repository) return folder.commit();
  for (const name of TEMPLATE_MODELS) await moveFolder(join(folder.path, name), join(repository, name));
}
