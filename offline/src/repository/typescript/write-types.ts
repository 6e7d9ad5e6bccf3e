/** Writes the types of a repository's TypeScript models beside them. Leaves unchanged files alone. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeFileAtomically } from "@nereid/server/files/atomic-output";
import { ToolError } from "@nereid/server/files/tool-error";
import { examineModel } from "../check/examined-model.ts";
import { findingText } from "../check/finding.ts";
import { modelTypes, TYPES_FILE } from "./model-types.ts";

export interface WrittenTypes {
  readonly model: string;
  readonly path: string;
  readonly isNew: boolean;
}

/** Sources have the types as they are written, builds as declarations; each gives its own, whatever else lies in a checkout. */
const API_FILES: readonly string[] = import.meta.url.endsWith(".ts")
  ? ["src/backend/typescript/model-api.ts"]
  : ["dist/src/backend/typescript/model-api.d.ts"];

/** @throws ToolError when it is no folder, or a configuration cannot be read */
export async function writeTypes(repository: string): Promise<WrittenTypes[]> {
  const api = await readApi();
  const models = await Promise.all((await modelNames(repository)).map((name) => examineModel(repository, name)));
  const configs = models.flatMap(({ config }) => config ?? []);
  const written: WrittenTypes[] = [];
  for (const { name, path: folder, config, findings } of models) {
    if (config === undefined) throw new ToolError(findings.map(findingText).join("\n"));
    if (config.backend !== "typescript") continue;
    const path = join(folder, TYPES_FILE);
    const text = modelTypes(config, api, configs);
    const isNew = !existsSync(path) || (await readFile(path, "utf8")) !== text;
    if (isNew) await writeFileAtomically(path, text);
    written.push({ model: name, path, isNew });
  }
  return written;
}

/** Folders with a config.pbtxt, sorted. @throws ToolError when it is no folder */
export async function modelNames(repository: string): Promise<string[]> {
  try {
    const entries = await readdir(repository, { withFileTypes: true });
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    return folders.filter((name) => existsSync(join(repository, name, "config.pbtxt"))).sort();
  } catch (error) {
    throw new ToolError(`${repository} is no folder that can be read`, { cause: error });
  }
}

async function readApi(): Promise<string> {
  const home = import.meta.resolve("@nereid/server/package.json");
  const paths = API_FILES.map((file) => fileURLToPath(new URL(file, home)));
  const found = paths.find((path) => existsSync(path));
  if (found === undefined)
    throw new ToolError(`the types of models are missing from the installation: ${paths.join(", ")}`);
  const text = await readFile(found, "utf8");
  return text.replace(/\n\/\/# sourceMappingURL=\S+\s*$/, "\n").replace(/^export \{\};\n/m, "");
}
