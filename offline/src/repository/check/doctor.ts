/**
 * Examines model repositories as the server would load them, without serving: which models fail, where, why, and the
 * fix.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { isUnfinishedName } from "@nereid/server/core/unfinished-name";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { listModels } from "@nereid/server/repository/source/model-folder";
import { adviceFor } from "./advice.ts";
import { checkCalls } from "./check-calls.ts";
import { checkChat } from "./check-chat.ts";
import { checkEngineFolder, engineFolderOf } from "./check-engine-folder.ts";
import { checkLlm } from "./check-llm.ts";
import { checkOnnx } from "./check-onnx.ts";
import { checkPython } from "./check-python.ts";
import { checkTokenizer } from "./check-tokenizer.ts";
import { checkTypescript } from "./check-typescript.ts";
import { checkImage, checkRetrieval } from "./check-vision.ts";
import { lineOfField } from "./config-lines.ts";
import { type ExaminedModel, examineModel } from "./examined-model.ts";
import type { Finding, Severity } from "./finding.ts";
import { hubFolderProblem } from "./misplaced-files.ts";

export interface Diagnosis {
  readonly models: readonly { readonly name: string; readonly path: string; readonly isLoadable: boolean }[];
  readonly findings: readonly Finding[];
}

type Check = (
  model: ExaminedModel,
  config: NonNullable<ExaminedModel["config"]>,
  versionFolder: string,
) => Promise<void>;

const CHECKS: ReadonlyMap<string, Check> = new Map([
  ["llm", checkLlm],
  ["tensorrtllm", checkLlm],
  ["onnxruntime", checkOnnx],
  ["tensorrt", checkOnnx],
  ["python", checkPython],
  ["tokenizer", checkTokenizer],
  ["typescript", checkTypescript],
  ["image", checkImage],
  ["retrieval", checkRetrieval],
]);
const SEVERITIES: readonly Severity[] = ["error", "warning", "note"];
/** These need only their configuration. */
const OTHER_BACKENDS: ReadonlySet<string> = new Set([
  "bls",
  "pooling",
  "identity",
  "repeat",
  "square",
  "sequence",
  "dyna_sequence",
]);

/** @throws ToolError when a path is no folder */
export async function diagnose(paths: readonly string[], reporter: Reporter, signal: AbortSignal): Promise<Diagnosis> {
  const findings: Finding[] = [];
  const models = new Map<string, ExaminedModel>();
  for (const path of paths.map((each) => resolve(each))) {
    expectFolder(path);
    findings.push(...examineLayout(path));
    const names = listModels(path).filter((name) => !name.startsWith("."));
    const task = reporter.startTask({ task: "examine", unit: "models", total: names.length });
    for (const name of names) {
      signal.throwIfAborted();
      const model = await examineModel(path, name);
      await checkBackend(model);
      const duplicate = models.get(name);
      if (duplicate !== undefined)
        model.add("error", `model '${name}' is in ${duplicate.path} too`, "Remove one of the two", {
          file: model.path,
        });
      models.set(name, model);
      task.add(1, name);
    }
    task.end();
  }
  checkCalls(models);
  for (const model of models.values()) checkChat(model);
  for (const model of models.values()) findings.push(...model.findings);
  findings.sort((a, b) => rank(a) - rank(b));
  return { findings, models: [...models.values()].map(({ name, path, isLoadable }) => ({ name, path, isLoadable })) };
}

/** Failing models first; those affected by another follow their cause. */
function rank({ severity, problem }: Finding): number {
  return 2 * SEVERITIES.indexOf(severity) + (problem.startsWith("it calls model") ? 1 : 0);
}

function expectFolder(path: string): void {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isDirectory() === true) return;
  const problem = stats === undefined ? "does not exist" : "is a file";
  throw new ToolError(`The model repository ${path} ${problem}`, {
    fix: "Name a folder that holds a folder for each model",
  });
}

async function checkBackend(model: ExaminedModel): Promise<void> {
  const { config, versionFolder } = model;
  if (config === undefined || config.ensemble_scheduling !== undefined) return;
  const kind = versionFolder === undefined ? undefined : engineFolderOf(config, versionFolder);
  if (kind !== undefined && versionFolder !== undefined) {
    await checkEngineFolder(model, config, versionFolder, kind);
    return;
  }
  const check = CHECKS.get(config.backend);
  if (check !== undefined && versionFolder !== undefined) await check(model, config, versionFolder);
  if (check !== undefined || OTHER_BACKENDS.has(config.backend)) return;
  const problem = `unable to find backend library for backend '${config.backend}'`;
  const line = lineOfField(model.text, "backend") ?? lineOfField(model.text, "platform");
  model.add("error", problem, adviceFor(problem), { line });
}

/** The repository itself: one level too deep, one too high, or empty. */
function examineLayout(path: string): Finding[] {
  const finding = (problem: string, fix: string): Finding => ({
    severity: "error",
    model: "",
    file: path,
    line: undefined,
    problem,
    fix,
  });
  const entries = readdirSync(path, { withFileTypes: true });
  const unfinished = entries
    .filter(({ name }) => isUnfinishedName(name))
    .map(
      ({ name }): Finding => ({
        severity: "note",
        model: "",
        file: join(path, name),
        line: undefined,
        problem: "a run of a command was cut short here; it is not served",
        fix: "Run that command again, or delete it",
      }),
    );
  if (entries.some(({ name }) => name === "config.pbtxt")) {
    return [finding("it is the folder of a model, not of a repository", `Name ${resolve(path, "..")}`), ...unfinished];
  }
  const names = entries.map(({ name }) => name);
  const hub = hubFolderProblem(path, names);
  if (hub !== undefined) return [finding(hub.problem, hub.fix), ...unfinished];
  const folders = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith("."));
  if (folders.length === 0)
    return [finding("there are no models in it", "Make a folder for each model"), ...unfinished];
  const isRepository = (folder: string): boolean =>
    listModels(folder).some((name) => existsSync(join(folder, name, "config.pbtxt")));
  const deeper = folders
    .map(({ name }) => join(path, name))
    .filter((folder) => !existsSync(join(folder, "config.pbtxt")) && isRepository(folder));
  return [
    ...deeper.map((folder) =>
      finding(`${folder} is a repository of its own, not a model`, `Name ${folder} as the repository`),
    ),
    ...unfinished,
  ];
}
