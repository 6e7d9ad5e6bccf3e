/** Checks a TypeScript model: file, strippable types, settings. Runs none of its code. */
import { readFile } from "node:fs/promises";
import { modelFile, readSettings } from "@nereid/server/backend/typescript/settings";
import { stripTypes } from "@nereid/server/backend/typescript/worker/strip-types";
import type { ModelConfig } from "@nereid/server/core/model-config";
import type { ExaminedModel } from "./examined-model.ts";

export async function checkTypescript(model: ExaminedModel, config: ModelConfig, versionFolder: string): Promise<void> {
  let file: string;
  try {
    readSettings(new Map(), config);
    file = modelFile(config, versionFolder);
  } catch (error) {
    model.addServerError(error);
    return;
  }
  if (!/\.m?ts$/.test(file)) return;
  try {
    await stripTypes(await readFile(file, "utf8"), file);
  } catch (error) {
    const [problem = "", line] = problemOf(error, file);
    model.add("error", problem, "Correct the file: the server reads it as it is", { file, line });
  }
}

/** Text and line of an error with a location. */
function problemOf(error: unknown, file: string): [string, number | undefined] {
  const [text = ""] = (error instanceof Error ? error.message : String(error)).split("\n");
  const located = text.startsWith(`${file}:`) ? /^:(\d+):\d+: (.*)$/.exec(text.slice(file.length)) : null;
  return located === null ? [text, undefined] : [located[2] ?? text, Number(located[1])];
}
