/**
 * Loads the models that an ensemble calls, before the ensemble itself: all that are not served, and those whose files
 * have changed. Source: `PollModels` of Triton's core, which polls the steps of an ensemble with every load of it.
 */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { modelKeyText, nameOfKey, unavailableSteps } from "../model-key.ts";
import type { LoadOrigin, ModelRecord } from "../model-record.ts";
import type { NamedLocks } from "../mutex.ts";
import type { ModelRegistry } from "../registry.ts";
import type { ModelSources, PolledModel } from "../source/model-sources.ts";
import { circularDependency } from "./load-order.ts";

export interface ComposingModelsOptions {
  readonly sources: ModelSources;
  readonly registry: ModelRegistry;
  readonly locks: NamedLocks;
  readonly log: Logger;
  readonly recordOf: (key: string) => ModelRecord | undefined;
  /** Throws a ServerError when an ensemble does not fit the models that it calls. */
  readonly check: (model: PolledModel) => void;
  /** @throws ServerError */
  readonly load: (model: PolledModel, origin: LoadOrigin) => Promise<void>;
}

export class ComposingModels {
  readonly #options: ComposingModelsOptions;

  constructor(options: ComposingModelsOptions) {
    this.#options = options;
  }

  /** @throws ServerError naming the model that cannot be loaded */
  load(ensemble: PolledModel): Promise<void> {
    return this.#load(ensemble, [ensemble.key]);
  }

  /** The steps whose models are neither served nor in one repository. @throws ServerError invalid_argument */
  expectSteps({ key, stepKeys }: PolledModel): void {
    const { sources, registry } = this.#options;
    const missing = stepKeys.filter((need) => registry.ready(need).length === 0 && !sources.exists(need));
    if (missing.length > 0) throw unavailableSteps(key, missing);
  }

  /** `path`: the ensembles that led here, whose locks are held. */
  async #load(ensemble: PolledModel, path: readonly string[]): Promise<void> {
    this.expectSteps(ensemble);
    for (const need of new Set(ensemble.stepKeys)) {
      if (path.includes(need)) throw circularDependency([...path.slice(path.indexOf(need)), need].map(modelKeyText));
      await this.#bringUp(need, path, ensemble.key);
      await this.#bringUpOthers(need, path, ensemble.key);
    }
  }

  /** With namespaces, the models of that name elsewhere come too: so the name is ambiguous before and after a reload. */
  async #bringUpOthers(need: string, path: readonly string[], caller: string): Promise<void> {
    const { sources, log } = this.#options;
    for (const other of sources.keysNamed(nameOfKey(need))) {
      if (other === need || path.includes(other)) continue;
      await this.#bringUp(other, path, caller).catch((error: unknown) => {
        log.error("model_repository", ServerError.from(error).message.trimEnd());
      });
    }
  }

  async #bringUp(need: string, path: readonly string[], caller: string): Promise<void> {
    const { locks, registry, recordOf, log } = this.#options;
    await locks.run([need], async () => {
      const record = recordOf(need);
      const isServed = registry.ready(need).length > 0;
      if (isServed && (record === undefined || record.isOverridden || !this.#hasChanged(record.polled))) {
        if (record !== undefined) await this.#load(record.polled, [...path, need]);
        return;
      }
      try {
        await this.#loadNow(need, [...path, need]);
      } catch (thrown) {
        const error = ServerError.from(thrown);
        if (!isServed) throw needFailed(caller, need, error);
        log.error("model_repository", `'${modelKeyText(need)}' keeps serving as it was: ${error.message.trimEnd()}`);
      }
    });
  }

  #hasChanged({ key, folder, stepKeys, config }: PolledModel): boolean {
    const { sources } = this.#options;
    if (!sources.exists(key)) return false;
    const fingerprint = sources.fingerprint(key); // "" = not known without fetching the model
    const isSame = fingerprint === "" || fingerprint === folder.fingerprint;
    return !isSame || sources.stepKeys(key, config).join("\n") !== stepKeys.join("\n");
  }

  async #loadNow(key: string, path: readonly string[]): Promise<void> {
    const { sources, check, load, log } = this.#options;
    const files = await sources.bring(key).catch((error: unknown) => {
      throw unreadable(log, key, error);
    });
    try {
      let model: PolledModel;
      try {
        model = sources.poll(key, files, undefined);
      } catch (error) {
        throw unreadable(log, key, error);
      }
      await this.#load(model, path);
      check(model);
      await load(model, { isExplicit: false, isOverridden: false, files });
    } catch (error) {
      await files.release();
      throw error;
    }
  }
}

/** A model whose folder cannot be read is one that is not there, for the ensemble that calls it. */
class UnreadableModel extends ServerError {}

function unreadable(log: Logger, key: string, thrown: unknown): UnreadableModel {
  const { code, message } = ServerError.from(thrown);
  log.error("model_repository", `Poll failed for model directory '${modelKeyText(key)}': ${message}`);
  return new UnreadableModel(code, message, { cause: thrown });
}

function needFailed(caller: string, need: string, error: ServerError): ServerError {
  if (error instanceof UnreadableModel) return unavailableSteps(caller, [need]);
  const reason = error.message.replace(`load failed for model '${nameOfKey(need)}': `, "").trimEnd();
  const name = modelKeyText(need);
  return invalidArgument(
    `ensemble '${modelKeyText(caller)}' depends on '${name}' which has no loaded version. Model '${name}' loading failed with error: ${reason}`,
  );
}
