/** Recognizes a model on this machine: a Hugging Face folder, a checkpoint, an engine, a GGUF file, a model repository. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import { hasModelFiles } from "@nereid/server/formats/hf/model-files";
import { NAME_FORMS } from "../name/model-name.ts";
import type { ResolvedModel } from "./resolved-model.ts";

const SHOWN = 6;

/** @throws ToolError when nothing is there, or nothing that can be served */
export function resolvePath(name: string, home: string = homedir()): ResolvedModel {
  const path = resolve(name.startsWith("~/") ? join(home, name.slice(2)) : name);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) throw new ToolError(`There is no file or folder ${path}`, { fix: NAME_FORMS });
  const origin = stats.isDirectory() ? `folder ${path}` : `file ${path}`;
  if (hasModelFiles(path)) return { name, kind: "model", path, origin };
  if (!stats.isDirectory()) {
    throw new ToolError(`${path} is no model: a single file ends in .gguf`, { fix: NAME_FORMS });
  }
  if (isRepository(path)) return { name, kind: "repository", path, origin: `model repository ${path}` };
  throw new ToolError(`${path} holds no model: it has ${contentsOf(path)}`, {
    fix: "Expected config.json with weights, a .gguf file, or folders with a config.pbtxt each",
  });
}

/** A folder for each model, each with a configuration or a version. */
function isRepository(path: string): boolean {
  return readdirSync(path, { withFileTypes: true }).some((entry) => {
    if (!entry.isDirectory() || entry.name.startsWith(".")) return false;
    const model = join(path, entry.name);
    return existsSync(join(model, "config.pbtxt")) || readdirSync(model).some((name) => /^[1-9]\d*$/.test(name));
  });
}

function contentsOf(path: string): string {
  const names = readdirSync(path).sort();
  if (names.length === 0) return "nothing in it";
  return `${names.slice(0, SHOWN).join(", ")}${names.length > SHOWN ? ", …" : ""}`;
}
