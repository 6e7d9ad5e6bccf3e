/**
 * Configurations that an operator edits: checked as they are typed, tried on a copy of the model, applied to the model, and
 * rolled back. Files of the repository never change. A copy is the same folder under another name, with the other
 * configuration. Part of the composition root.
 */
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseModelConfigText, prepareModelConfig } from "../../config/model/model-config.ts";
import { parseTextMessage } from "../../config/pbtxt/text-format.ts";
import { jsonWithUint64 } from "../../core/json-object.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { ConfigEditor } from "../../protocol/console/console-host.ts";
import type { ConsoleConfig, ConsoleConfigProblem } from "../../protocol/console/console-types.ts";
import type { RepositoryServer } from "../../repository/model-server.ts";
import { readModelFolder } from "../../repository/source/model-folder.ts";

const FILE = "config.pbtxt";
const LOCATED = /^(?:.*?):(\d+):(\d+): ([\s\S]*)$/;
const TRIAL_SUFFIX = ".trial";

export interface EditedConfigsOptions {
  readonly server: Pick<
    RepositoryServer,
    "load" | "unload" | "isExplicit" | "registerRepository" | "unregisterRepository"
  >;
  /** Repository that has the model. @throws ServerError */
  readonly folderOf: (model: string) => string;
  /** `--model-config-name`. */
  readonly configName: string;
  readonly autoComplete: boolean;
}

interface Trial {
  readonly name: string;
  /** Folder that holds the link to the repository. */
  readonly folder: string;
  readonly repository: string;
}

export class EditedConfigs implements ConfigEditor, AsyncDisposable {
  readonly #options: EditedConfigsOptions;
  readonly #applied = new Map<string, string>();
  readonly #trials = new Map<string, Trial>();

  constructor(options: EditedConfigsOptions) {
    this.#options = options;
  }

  read(model: string): ConsoleConfig {
    const { config, path } = this.#folder(model);
    const applied = this.#applied.get(model);
    const trial = this.#trials.get(model)?.name;
    return {
      text: config?.text ?? "",
      file: config?.path ?? join(path, FILE),
      ...(applied === undefined ? {} : { applied }),
      ...(trial === undefined ? {} : { trial }),
    };
  }

  check(model: string, text: string): readonly ConsoleConfigProblem[] {
    const { artifacts } = this.#folder(model);
    try {
      const written = parseModelConfigText(text, FILE);
      prepareModelConfig({ written, modelName: model, artifacts, autoComplete: this.#options.autoComplete });
      return [];
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      return [problemOf(error.message)];
    }
  }

  async tryOut(model: string, text: string): Promise<string> {
    this.#expectExplicit();
    const config = this.#loadable(model, text);
    const { server, folderOf } = this.#options;
    const home = folderOf(model);
    await this.endTrial(model);
    const name = `${model}${TRIAL_SUFFIX}`;
    const folder = await mkdtemp(join(tmpdir(), "nereid-trial-"));
    const trial = { name, folder, repository: join(folder, "repository") };
    this.#trials.set(model, trial);
    try {
      await symlink(home, trial.repository);
      server.registerRepository(trial.repository, model, name);
      await server.load(name, { config });
    } catch (error) {
      await this.endTrial(model);
      throw error;
    }
    return name;
  }

  async endTrial(model: string): Promise<void> {
    const trial = this.#trials.get(model);
    if (trial === undefined) return;
    const { server } = this.#options;
    this.#trials.delete(model);
    await server.unload(trial.name, false).catch(ignoreUnknown);
    try {
      server.unregisterRepository(trial.repository);
    } catch (error) {
      ignoreUnknown(error);
    }
    await rm(trial.folder, { recursive: true, force: true });
  }

  async apply(model: string, text: string): Promise<void> {
    this.#expectExplicit();
    await this.#options.server.load(model, { config: this.#loadable(model, text) });
    this.#applied.set(model, text);
  }

  async rollBack(model: string): Promise<void> {
    this.#expectExplicit();
    const text = this.#folder(model).config?.text ?? "";
    // A load without a configuration would find the files as they were, and keep what is served.
    await this.#options.server.load(model, { config: this.#loadable(model, text) });
    this.#applied.delete(model);
  }

  originalOf(name: string): string | undefined {
    for (const [model, trial] of this.#trials) if (trial.name === name) return model;
    return undefined;
  }

  /** Removes the links; the server unloads the copies with all other models. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#trials.values()].map(({ folder }) => rm(folder, { recursive: true, force: true })));
    this.#trials.clear();
  }

  #folder(model: string): ReturnType<typeof readModelFolder> {
    return readModelFolder(this.#options.folderOf(model), model, this.#options.configName);
  }

  /** As a load request takes it. The copy has another name than the text says. @throws ServerError */
  #loadable(model: string, text: string): string {
    const [problem] = this.check(model, text);
    if (problem !== undefined) {
      const place = problem.line === undefined ? FILE : `${FILE}:${problem.line}:${problem.column}`;
      throw invalidArgument(`${place}: ${problem.message}`);
    }
    const { name: _, ...written } = parseTextMessage(text, FILE, "ModelConfig");
    return jsonWithUint64(written);
  }

  #expectExplicit(): void {
    if (this.#options.server.isExplicit) return;
    throw new ServerError(
      "unavailable",
      "Configurations can be tried and applied with --model-control-mode=explicit alone",
    );
  }
}

function problemOf(message: string): ConsoleConfigProblem {
  const [, line, column, text] = LOCATED.exec(message) ?? [];
  if (line === undefined || text === undefined) return { message };
  return { line: Number(line), column: Number(column), message: text };
}

/** A copy that did not load is not there to be unloaded. */
function ignoreUnknown(error: unknown): void {
  if (!(error instanceof ServerError)) throw error;
}
