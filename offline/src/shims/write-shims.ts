/** Writes the files of `nereid shims` into a folder, over those of an earlier run and over nothing else. */
import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdir } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { writeFileAtomically } from "@nereid/server/files/atomic-output";
import { ToolError } from "@nereid/server/files/tool-error";
import { copyTemplates } from "../repository/create/init-repo.ts";
import { type Programs, SHIM_MARK, shimFiles, TEMPLATE_FOLDERS } from "./shim-files.ts";

/** Programs of this installation, by absolute paths. */
export function ownPrograms(): Programs {
  const program = (name: string): readonly string[] => [
    process.execPath,
    fileURLToPath(import.meta.resolve(`@nereid/server/bin/${name}.cjs`)),
  ];
  return { nereid: program("nereid"), tritonserver: program("tritonserver") };
}

/** Absolute path of the folder, and the names of the commands in it. @throws ToolError for a file of somebody else */
export async function writeShims(
  target: string,
  programs: Programs,
): Promise<{ readonly folder: string; readonly commands: readonly string[] }> {
  const folder = resolve(target);
  const files = shimFiles(programs);
  for (const { path } of files) expectOwn(join(folder, path));
  for (const { path, text, isProgram } of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFileAtomically(join(folder, path), text);
    if (isProgram) await chmod(join(folder, path), 0o755);
  }
  for (const path of TEMPLATE_FOLDERS) await copyTemplates(join(folder, path), true);
  return { folder, commands: files.map(({ path }) => path).filter((path) => !path.includes("/")) };
}

function expectOwn(path: string): void {
  if (!existsSync(path) || readFileSync(path, "utf8").includes(SHIM_MARK)) return;
  throw new ToolError(`${path} is there, and nereid shims did not write it`, {
    fix: "Name an empty folder, or one of an earlier run",
  });
}
