/** One model's folder, parsed as far as possible: configuration, versions, and findings. */
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import {
  emptyModelConfig,
  finishModelConfig,
  parseModelConfigText,
  prepareModelConfig,
} from "@nereid/server/config/model/model-config";
import { normalizeInstanceGroups } from "@nereid/server/config/model/normalize";
import { validateInstanceGroups } from "@nereid/server/config/model/validate-instances";
import type { ModelConfig } from "@nereid/server/core/model-config";
import { ServerError } from "@nereid/server/core/server-error";
import { type ModelFolder, readModelFolder } from "@nereid/server/repository/source/model-folder";
import { selectVersions } from "@nereid/server/repository/source/version-policy";
import { machineGpus } from "../../build/machine-gpus.ts";
import { listKeys } from "../../template/fill-template.ts";
import { adviceFor } from "./advice.ts";
import { lineOfField, lineOfMessage, lineOfParameter } from "./config-lines.ts";
import type { Finding, Severity } from "./finding.ts";
import { hubFolderProblem } from "./misplaced-files.ts";

const LOCATED = /^(.*?):(\d+):(\d+): ([\s\S]*)$/;
/** These backends complete a configuration from the model's file: without it, declarations may be missing. */
const SELF_DESCRIBING: ReadonlySet<string> = new Set(["onnxruntime", "tensorrt", "python", "vllm"]);

export class ExaminedModel {
  readonly name: string;
  readonly path: string;
  readonly findings: Finding[] = [];
  /** Undefined when there is no readable one. */
  config: ModelConfig | undefined;
  folder: ModelFolder | undefined;

  constructor(repositoryPath: string, name: string) {
    this.name = name;
    this.path = join(repositoryPath, name);
  }

  get isLoadable(): boolean {
    return !this.findings.some(({ severity }) => severity === "error");
  }

  get configPath(): string {
    return this.folder?.config?.path ?? join(this.path, "config.pbtxt");
  }

  get text(): string {
    return this.folder?.config?.text ?? "";
  }

  /** The version folder that would be served: the newest. */
  get versionFolder(): string | undefined {
    const { folder, config } = this;
    if (folder === undefined || config === undefined) return undefined;
    const version = selectVersions(folder.versions, config.version_policy).selected.at(-1);
    return version === undefined ? undefined : join(this.path, String(version));
  }

  /** Ascending; those that its version policy selects. */
  get servedVersions(): readonly { readonly version: string; readonly config: ModelConfig }[] {
    const { folder, config } = this;
    if (folder === undefined || config === undefined) return [];
    const { selected } = selectVersions(folder.versions, config.version_policy);
    return selected.map((version) => ({ version: String(version), config }));
  }

  add(
    severity: Severity,
    problem: string,
    fix: string,
    place: { file?: string; line?: number | undefined } = {},
  ): void {
    const { file = this.configPath, line } = place;
    this.findings.push({ severity, model: this.name, file, line, problem, fix });
  }

  /** At the value of one of the parameters. */
  addAtParameter(severity: Severity, key: string, problem: string, fix: string): void {
    this.add(severity, problem, fix, { line: lineOfParameter(this.text, key) });
  }

  /** Adds the server's message at its most likely line. */
  addServerError(error: unknown): void {
    const { message } = ServerError.from(error);
    const located = LOCATED.exec(message);
    if (located === null) {
      this.add("error", message, adviceFor(message), { line: lineOfMessage(this.text, message) });
    } else {
      const [, file, line, , problem = ""] = located;
      this.add("error", problem, adviceFor(problem), { file: file ?? this.configPath, line: Number(line) });
    }
  }
}

export async function examineModel(repositoryPath: string, name: string): Promise<ExaminedModel> {
  const model = new ExaminedModel(repositoryPath, name);
  try {
    model.folder = readModelFolder(repositoryPath, name, "");
  } catch (error) {
    model.addServerError(error);
    return model;
  }
  for (const warning of model.folder.warnings) {
    model.add("warning", warning, "Give version folders numbers from 1", { file: model.path });
  }
  await findMisplacedConfig(model, model.folder);
  model.config = readConfig(model, model.folder);
  if (model.config !== undefined) examineVersions(model, model.folder, model.config);
  return model;
}

/** A common mistake: the configuration is in the version folder. */
async function findMisplacedConfig(model: ExaminedModel, folder: ModelFolder): Promise<void> {
  if (folder.config !== undefined) return;
  for (const version of folder.versions) {
    const path = join(folder.path, String(version), "config.pbtxt");
    if (!existsSync(path)) continue;
    model.add("error", "config.pbtxt lies in the version folder, where it is not read", `Move it to ${folder.path}`, {
      file: path,
    });
    return;
  }
  const names = await readdir(folder.path).catch(() => []);
  const hub = hubFolderProblem(folder.path, names);
  if (hub !== undefined) {
    model.add("warning", hub.problem, hub.fix, { file: folder.path });
    return;
  }
  const alike = names.find((name) => /^config\.(pb|prototxt|txt|pbtext|json)$/i.test(name));
  if (alike === undefined) return;
  model.add("warning", `${alike} is not read: configurations are called config.pbtxt`, "Rename it to config.pbtxt", {
    file: join(folder.path, alike),
  });
}

function readConfig(model: ExaminedModel, folder: ModelFolder): ModelConfig | undefined {
  const notes: string[] = [];
  try {
    const written =
      folder.config === undefined
        ? emptyModelConfig()
        : parseModelConfigText(folder.config.text, folder.config.path, (note) => notes.push(note));
    const { name: modelName, artifacts } = folder;
    const prepared = prepareModelConfig({ written, modelName, artifacts, autoComplete: true });
    if (SELF_DESCRIBING.has(prepared.backend)) {
      const gpus = machineGpus();
      validateInstanceGroups(normalizeInstanceGroups(prepared, gpus.ids), gpus);
      return prepared;
    }
    const settings = new Map<string, string>();
    return finishModelConfig({ prepared, description: undefined, autoComplete: true, settings, gpus: machineGpus() });
  } catch (error) {
    model.addServerError(error);
    return undefined;
  } finally {
    addUnfilled(model, folder);
    for (const note of notes.filter((each) => !each.includes("unfilled template placeholder"))) addNote(model, note);
  }
}

/** `file:line:column: problem and fix`. */
function addNote(model: ExaminedModel, note: string): void {
  const [, file, line, , text = note] = LOCATED.exec(note) ?? [];
  const [problem = "", ...fix] = text.split("; ");
  model.add("warning", problem, fix.join("; ") || "Write a value", {
    ...(file === undefined ? {} : { file }),
    line: line === undefined ? undefined : Number(line),
  });
}

const MAX_SHOWN = 6;

/** One finding for all placeholders: an unfilled template has dozens. */
function addUnfilled(model: ExaminedModel, folder: ModelFolder): void {
  const keys = folder.config === undefined ? [] : listKeys(folder.config.text);
  if (keys.length === 0) return;
  const texts = keys.map(({ name, lines, byDefault }) => `${name} (line ${lines[0]}: ${byDefault ?? "not set"})`);
  const fix = `Run nereid fill-template -i ${model.configPath} ${keys[0]?.name}:<value>,… for those whose defaults do not suit`;
  const line = keys[0]?.lines[0];
  const shown = texts.slice(0, MAX_SHOWN);
  const rest =
    texts.length > shown.length ? `, and ${texts.length - shown.length} that nereid fill-template --list shows` : "";
  const what =
    keys.length === 1 ? "placeholder is unfilled, so its default holds" : "placeholders are unfilled, so defaults hold";
  model.add("warning", `${keys.length} ${what}: ${shown.join(", ")}${rest}`, fix, {
    line,
  });
}

function examineVersions(model: ExaminedModel, folder: ModelFolder, config: ModelConfig): void {
  const { selected, missing } = selectVersions(folder.versions, config.version_policy);
  const line = lineOfField(model.text, "version_policy");
  for (const version of missing) {
    model.add(
      "warning",
      `version_policy names version ${version}, which is not there`,
      `Make ${join(folder.path, String(version))}, or change version_policy`,
      { line },
    );
  }
  if (selected.length > 0) return;
  const problem = "there is no version folder to serve: empty ones get lost in git and in some copies";
  model.add(
    "error",
    problem,
    `mkdir ${join(folder.path, "1")}${config.ensemble_scheduling === undefined ? " and put the model's file into it" : ""}`,
    {
      file: folder.path,
    },
  );
}
