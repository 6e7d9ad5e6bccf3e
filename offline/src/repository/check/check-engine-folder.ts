/** Checks a folder that was written for TensorRT-LLM's LLM API or for vLLM and runs on our engine. */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { resolve } from "node:path";
import process from "node:process";
import { type EngineFolderKind, engineFolderKind } from "@nereid/server/backend/text-llm/engine-folder";
import { readFolderArguments } from "@nereid/server/backend/text-llm/folder-arguments";
import { withEngineParameters } from "@nereid/server/backend/text-llm/text-llm-backend";
import type { ModelConfig } from "@nereid/server/core/model-config";
import { cachedSnapshot } from "@nereid/server/hub/cache";
import { hubSettings } from "@nereid/server/hub/settings";
import { machineGpus } from "../../build/machine-gpus.ts";
import { checkLlm } from "./check-llm.ts";
import type { ExaminedModel } from "./examined-model.ts";

/** Undefined: the folder is none of them, or asks for its own program. */
export function engineFolderOf(config: ModelConfig, versionFolder: string): EngineFolderKind | undefined {
  return engineFolderKind({ config, versionFolder }, process.env);
}

export async function checkEngineFolder(
  model: ExaminedModel,
  config: ModelConfig,
  versionFolder: string,
  kind: EngineFolderKind,
): Promise<void> {
  const title = kind === "llmapi" ? "TensorRT-LLM's LLM API" : "vLLM";
  const fix = "Set the parameter 'engine' to 'python' to run the program that it was written for";
  model.add("note", `it is a folder for ${title}, and runs on this server's engine`, fix);
  try {
    const options = { hasGpus: machineGpus().ids.length > 0, env: process.env };
    const { engine, path } = await readFolderArguments(kind, { versionFolder }, options);
    for (const note of engine.notes) {
      const isMisspelt = note.includes("did you mean");
      const advice = isMisspelt ? "Write the name that is meant" : "Nothing: the model loads anyway";
      model.add(isMisspelt ? "warning" : "note", note.replace(`${path}: `, ""), advice, { file: path });
    }
    const weights = await findWeights(engine.model, engine.revision, [process.cwd(), versionFolder, model.path]);
    if (weights !== undefined) await checkLlm(model, withEngineParameters(config, engine, weights), versionFolder);
    else reportAbsent(model, engine.model, path);
  } catch (error) {
    model.addServerError(error);
  }
}

async function findWeights(
  name: string,
  revision: string | undefined,
  folders: readonly string[],
): Promise<string | undefined> {
  const local = folders.map((folder) => resolve(folder, name)).find((path) => existsSync(path));
  if (local !== undefined) return local;
  const { cacheFolder } = hubSettings(process.env, homedir());
  return cachedSnapshot(cacheFolder, { type: "model", id: name }, revision ?? "main").catch(() => undefined);
}

function reportAbsent(model: ExaminedModel, name: string, path: string): void {
  if (/^[\w-][\w.-]*\/[\w.-]+$/.test(name)) {
    const fix = `Nothing, or fetch it before: nereid download ${name}`;
    model.add("note", `the server downloads ${name} when it loads the model`, fix, { file: path });
  } else {
    model.add("error", `'model' is ${name}, which does not exist`, "Write the folder of the model", { file: path });
  }
}
