/** Checks a model of the backend `llm` or `tensorrtllm`: do its parameters lead to a model that can be served. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { freemem } from "node:os";
import { join } from "node:path";
import { parseLlmSettings } from "@nereid/server/backend/llm/llm-settings";
import type { ModelConfig } from "@nereid/server/core/model-config";
import { chooseEngine } from "@nereid/server/engine/choose-engine";
import type { EngineName } from "@nereid/server/engine/engine-spec";
import { formatBytes } from "@nereid/server/files/progress-text";
import { hasModelFiles } from "@nereid/server/formats/hf/model-files";
import { isPackedTensors } from "@nereid/server/formats/trtllm/engine-file";
import { typePlan } from "@nereid/server/models/cpu/weights";
import { describeWeights, findPrefix } from "@nereid/server/models/weights/weight-plan";
import { engineProblem } from "../../build/engine-target.ts";
import { type OpenedDecoder, openDecoder } from "../../checkpoint/open-decoder.ts";
import { lineOfParameter } from "./config-lines.ts";
import type { ExaminedModel } from "./examined-model.ts";
import { gitLfsProblem } from "./misplaced-files.ts";

const FOLDER_KEYS = ["gpt_model_path", "engine_dir", "model_dir", "model_path"];

export async function checkLlm(model: ExaminedModel, config: ModelConfig, versionFolder: string): Promise<void> {
  let folders: readonly string[];
  let engineName: EngineName;
  try {
    const settings = parseLlmSettings({ config, modelFolder: model.path, versionFolder });
    folders = settings.folders;
    engineName = settings.engineName;
    for (const note of settings.notes) addNote(model, note);
  } catch (error) {
    model.addServerError(error);
    return;
  }
  const found = folders.find((folder) => existsSync(folder) && hasModelFiles(folder));
  if (found === undefined) missingModel(model, folders, config);
  else await openModel(model, found, engineName);
}

/** Unfilled placeholders are counted elsewhere. A misspelt name loses a setting; one without effect here does not. */
function addNote(model: ExaminedModel, note: string): void {
  if (note.startsWith("parameters left as placeholders")) return;
  const isMisspelt = note.includes("did you mean");
  const fix = isMisspelt ? "Write the name that is meant" : "Nothing: the model loads anyway";
  model.add(isMisspelt ? "warning" : "note", note, fix);
}

function missingModel(model: ExaminedModel, folders: readonly string[], config: ModelConfig): void {
  const key = FOLDER_KEYS.find((each) => lineOfParameter(model.text, each) !== undefined) ?? "gpt_model_path";
  const written = config.parameters[key]?.string_value ?? "";
  const [first = ""] = folders;
  const isUnset = written === "" || written.startsWith("${");
  const fix = `Set ${key} to a folder with a model: nereid fill-template -i ${model.configPath} engine_dir:<folder>, or write it there`;
  if (isUnset) model.addAtParameter("error", key, `${key} is not set, and ${folders.join(" or ")} holds no model`, fix);
  else if (!existsSync(first))
    model.addAtParameter("error", key, `${key} points to ${first}, which does not exist`, fix);
  else model.addAtParameter("error", key, `${key} points to ${first}, where there is ${contentsOf(first)}`, fix);
}

function contentsOf(folder: string): string {
  if (!statSync(folder).isDirectory()) return "a file that is no GGUF";
  const names = readdirSync(folder);
  if (names.length === 0) return "nothing: the folder is empty";
  const shown = names.sort().slice(0, 6).join(", ");
  return `no config.json and no GGUF file, but ${shown}${names.length > 6 ? ", …" : ""}`;
}

async function openModel(model: ExaminedModel, folder: string, engineName: EngineName): Promise<void> {
  if (reportGitLfs(model, folder)) return;
  let opened: OpenedDecoder;
  try {
    const { engine, reason } = await chooseEngine(folder, engineName);
    if (engine === "llama.cpp") {
      model.add("note", `engine llama.cpp serves it: ${reason}`, "Nothing: the model loads");
      return;
    }
    opened = await openDecoder(folder);
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    model.add(
      "error",
      problem,
      "Download or convert the model again; docs/recipes tell how, and README which models are served",
      {
        file: statSync(folder).isDirectory() ? join(folder, "config.json") : folder,
      },
    );
    return;
  }
  try {
    checkWeights(model, folder, opened);
    await checkEngine(model, folder, opened);
  } finally {
    await opened.tensors.close();
  }
}

async function checkEngine(model: ExaminedModel, folder: string, { tensors }: OpenedDecoder): Promise<void> {
  const problem = await engineProblem(tensors);
  if (problem === undefined) return;
  const fix = `Build it again here: nereid build --checkpoint_dir <checkpoint> --output_dir ${folder}`;
  model.add("error", problem, fix, { file: join(folder, "rank0.engine") });
}

function checkWeights(model: ExaminedModel, folder: string, { parsed, tensors }: OpenedDecoder): void {
  if (!isPackedTensors(tensors)) {
    const prefix = findPrefix(parsed.weights, (name) => tensors.tensors.has(name));
    try {
      describeWeights(parsed.config, parsed.weights, prefix, (plan) => typePlan(plan, tensors, undefined));
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      model.add("error", problem, "Check that all weight files are there: nereid download resumes", {
        file: folder,
      });
      return;
    }
  }
  const bytes = [...tensors.tensors.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (bytes <= freemem()) return;
  const problem = `its weights take ${formatBytes(bytes)}, of memory ${formatBytes(freemem())} are free now`;
  model.add(
    "warning",
    problem,
    "Quantize it (nereid quantize), set weight_type to q8_0 or q4_0, or end what else runs",
    { file: folder },
  );
}

/** `git clone` without git-lfs leaves pointer files in place of weights. */
function reportGitLfs(model: ExaminedModel, folder: string): boolean {
  if (!statSync(folder).isDirectory()) return false;
  for (const name of readdirSync(folder)) {
    const problem = gitLfsProblem(join(folder, name));
    if (problem === undefined) continue;
    model.add("error", problem.problem, problem.fix, { file: join(folder, name) });
    return true;
  }
  return false;
}
