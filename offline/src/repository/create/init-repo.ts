/**
 * Writes the five models that serve a language model, filled in and examined. They appear when all of them would load.
 */
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { chooseEngine } from "@nereid/server/engine/choose-engine";
import { ENGINE_NAMES } from "@nereid/server/engine/engine-spec";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { openDecoder } from "../../checkpoint/open-decoder.ts";
import { findPlaceholders } from "../../template/template-text.ts";
import type { Finding } from "../check/finding.ts";
import { parameters } from "./config-text.ts";
import { findTokenizer } from "./find-tokenizer.ts";
import { copyAll, examine, expectRoom, filesToCopy, openStage, show, totalBytes } from "./repository-stage.ts";
import { fillRepositoryFile, repositoryValues } from "./repository-values.ts";
import { TEMPLATE_MODELS, templateFolder } from "./template-folder.ts";

const ENGINE = "tensorrt_llm";

export interface InitOptions {
  /** A model folder, an engine, or a GGUF file. */
  readonly modelDir: string;
  /** Undefined: in the model's folder. */
  readonly tokenizerDir: string | undefined;
  readonly repository: string;
  readonly maxBatchSize: number;
  readonly isDecoupled: boolean;
  readonly others: ReadonlyMap<string, string>;
  /** Further parameters of the engine's configuration, which the template lacks. */
  readonly engineParameters?: Readonly<Record<string, string>> | undefined;
  /** The engine runs on a GPU; otherwise as the template says. */
  readonly usesGpu?: boolean | undefined;
  /** Copies into the repository, so that it can be moved as a whole. */
  readonly copiesModel: boolean;
  /** Replaces existing models of the same names. */
  readonly replaces: boolean;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface InitResult {
  readonly repository: string;
  readonly models: readonly string[];
  /** Notes about a repository that will load. */
  readonly findings: readonly Finding[];
}

/** @throws ToolError: then nothing has changed */
export async function initRepository(options: InitOptions): Promise<InitResult> {
  const model = resolve(options.modelDir);
  const repository = resolve(options.repository);
  await expectServed(model, options.engineParameters?.engine);
  const tokenizer = await findTokenizer(options.tokenizerDir, model);
  await expectRoom(repository, TEMPLATE_MODELS, options.replaces);
  const copies = options.copiesModel ? await filesToCopy(model, tokenizer) : new Map<string, string>();
  await requireFreeBytes(repository, await totalBytes([...copies.values()]));
  await using folder = await openStage(repository);
  await copyAll(copies, join(folder.path, "tensorrt_llm", "1"), options);
  await writeModels(folder.path, options, {
    engineDir: options.copiesModel ? "1" : model,
    tokenizerDir: options.copiesModel ? "../tensorrt_llm/1" : tokenizer,
  });
  const findings = await examine(folder.path, repository, options);
  options.signal.throwIfAborted();
  await show(folder, repository, TEMPLATE_MODELS);
  return { repository, models: TEMPLATE_MODELS, findings };
}

/** @throws ToolError when no engine takes the model, or the named one does not */
export async function expectServed(model: string, name: string | undefined): Promise<void> {
  const engineName = ENGINE_NAMES.find((each) => each === name);
  const choice = await chooseEngine(model, engineName).catch((cause: unknown) => {
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  });
  if (choice.engine === "nereid") await (await openDecoder(model)).tensors.close();
}

/** The unfilled templates, for filling by hand or script. @throws ToolError */
export async function copyTemplates(repository: string, replaces: boolean): Promise<InitResult> {
  const target = resolve(repository);
  await expectRoom(target, TEMPLATE_MODELS, replaces);
  await using folder = await openStage(target);
  for (const name of TEMPLATE_MODELS) {
    await mkdir(join(folder.path, name, "1"), { recursive: true });
    await copyFile(join(templateFolder(), name, "config.pbtxt"), join(folder.path, name, "config.pbtxt"));
  }
  await show(folder, target, TEMPLATE_MODELS);
  return { repository: target, models: TEMPLATE_MODELS, findings: [] };
}

async function writeModels(
  folder: string,
  { maxBatchSize, isDecoupled, others, engineParameters = {}, usesGpu = false }: InitOptions,
  dirs: { readonly engineDir: string; readonly tokenizerDir: string },
): Promise<void> {
  const values = repositoryValues({ ...dirs, maxBatchSize, isDecoupled, others });
  const known = new Set<string>();
  for (const name of TEMPLATE_MODELS) {
    const template = await readFile(join(templateFolder(), name, "config.pbtxt"), "utf8");
    for (const placeholder of findPlaceholders(template)) known.add(placeholder.name);
    await mkdir(join(folder, name, "1"), { recursive: true });
    const filled = fillRepositoryFile(template, values);
    const text = name === ENGINE ? engineConfig(filled, engineParameters, usesGpu) : filled;
    await writeFile(join(folder, name, "config.pbtxt"), text);
  }
  const unknown = [...others.keys()].filter((key) => !known.has(key));
  if (unknown.length === 0) return;
  throw new ToolError(`There are no placeholders called ${unknown.join(", ")}`, {
    fix: `See nereid fill-template --list ${templateFolder()}`,
  });
}

function engineConfig(text: string, more: Readonly<Record<string, string>>, usesGpu: boolean): string {
  const placed = usesGpu ? text.replace(/kind: KIND_CPU/, "kind: KIND_GPU") : text;
  return `${placed.trimEnd()}\n${parameters(more)}`;
}
