/** The file or folder of a model version, by its configuration. */
import { stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { invalidArgument, ServerError } from "../core/server-error.ts";
import type { ModelSource } from "./backend.ts";

/** Path of what `default_model_filename` names, inside the version's folder. @throws ServerError when there is none */
export async function locateModel(source: ModelSource, defaultFile: string): Promise<string> {
  const { name, config, versionFolder } = source;
  const fileName = config.default_model_filename === "" ? defaultFile : config.default_model_filename;
  if (isAbsolute(fileName) || fileName.split(/[/\\]/).includes("..") || fileName.includes("\0")) {
    throw invalidArgument(
      `default_model_filename of model '${name}' must be a path inside the version's folder, got '${fileName}'`,
    );
  }
  const path = join(versionFolder, fileName);
  const found = await stat(path).catch(() => undefined);
  if (found !== undefined) return path;
  throw new ServerError("unavailable", `unable to find '${path}' for model instance '${name}'`);
}
