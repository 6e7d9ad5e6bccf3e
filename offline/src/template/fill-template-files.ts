/** Reads templates, fills them and writes them atomically: one file, or each `config.pbtxt` of a repository. */
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomically } from "@nereid/server/files/atomic-output";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import { type FilledTemplate, fillTemplate } from "./fill-template.ts";

/** Maximum bytes of a configuration: people write it by hand. */
const MAX_TEMPLATE_BYTES = 16 * 1024 * 1024;

export interface FilledFile extends FilledTemplate {
  readonly path: string;
  /** As read. */
  readonly template: string;
}

/** The file itself, or the configurations of the models in a folder. @throws ToolError */
export async function templateFiles(path: string): Promise<string[]> {
  const found = await stat(path).catch((error) => {
    throw fileError("read", path, error);
  });
  if (!found.isDirectory()) return [path];
  const folders = (await readdir(path, { withFileTypes: true })).filter((entry) => !entry.name.startsWith("."));
  const candidates = [path, ...folders.map(({ name }) => join(path, name)).sort()].map((folder) =>
    join(folder, "config.pbtxt"),
  );
  const files: string[] = [];
  for (const file of candidates) if (await isFile(file)) files.push(file);
  if (files.length === 0) {
    throw new ToolError(`There is no config.pbtxt in ${path} or in its folders`, {
      fix: "Name a file or a model repository",
    });
  }
  return files;
}

/** Line ends become \n, as in Python's text files. @throws ToolError */
export async function readTemplate(path: string): Promise<string> {
  const bytes = await readFile(path).catch((error) => {
    throw fileError("read", path, error);
  });
  if (bytes.length > MAX_TEMPLATE_BYTES) {
    throw new ToolError(`${path} has ${bytes.length} bytes: a configuration has at most ${MAX_TEMPLATE_BYTES}`);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes).replace(/\r\n?/g, "\n");
  } catch (error) {
    throw new ToolError(`${path} is no UTF-8 text`, { cause: error, fix: "Name a config.pbtxt" });
  }
}

export async function fillFile(path: string, substitutions: string): Promise<FilledFile> {
  const template = await readTemplate(path);
  return { path, template, ...fillTemplate(template, substitutions) };
}

/** Writes nothing when nothing changed: a second run keeps the file and its date. */
export async function writeFilled({ text, template }: FilledFile, target: string): Promise<void> {
  const current = await readFile(target, "utf8").catch(() => undefined);
  if (current === text && text === template) return;
  await writeFileAtomically(target, text);
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}
