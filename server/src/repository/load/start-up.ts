/**
 * Loads the models at server start: polls all requested models and those they call, then loads them in dependency
 * order.
 */
import { describeThrown, ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { Turns } from "../../observe/turns.ts";
import { modelKeyText } from "../model-key.ts";
import type { LoadOrigin } from "../model-record.ts";
import { forEachLimited } from "../mutex.ts";
import type { ModelSources, PolledModel } from "../source/model-sources.ts";
import type { LocalizedModel } from "../source/repository-location.ts";
import { loadWaves } from "./load-order.ts";

export interface StartUpOptions {
  readonly sources: ModelSources;
  readonly log: Logger;
  readonly loadThreads: number;
  /** @throws ServerError */
  readonly checkEnsemble: (model: PolledModel) => void;
  /** @throws ServerError */
  readonly loadPolled: (model: PolledModel, origin: LoadOrigin) => Promise<void>;
}

/** A model that passed the poll, and its local folder. */
interface FoundModel {
  readonly model: PolledModel;
  readonly files: LocalizedModel;
}

export class StartUp {
  readonly #options: StartUpOptions;
  readonly #found = new Map<string, FoundModel>();
  readonly #failures = new Map<string, ServerError>();
  readonly #seen = new Set<string>();
  /** A thousand models are read and loaded while the server already answers whether it lives. */
  readonly #turns = new Turns();

  constructor(options: StartUpOptions) {
    this.#options = options;
  }

  /** Returns the failures; never throws for one model. @throws ServerError when a repository cannot be reached */
  async load(names: readonly string[] | undefined): Promise<ReadonlyMap<string, ServerError>> {
    const { sources, loadThreads } = this.#options;
    await sources.refresh();
    const wanted = new Set(names?.flatMap((name) => sources.keysNamed(name)) ?? sources.keys());
    await forEachLimited([...wanted], loadThreads, (key) => this.#poll(key));
    const needs = (key: string): readonly string[] => this.#found.get(key)?.model.stepKeys ?? [];
    const { waves, circular } = loadWaves([...this.#found.keys()], needs);
    for (const [key, error] of circular) {
      this.#failed(key, error);
      await this.#found.get(key)?.files.release();
    }
    for (const wave of waves) {
      await forEachLimited(wave, loadThreads, async (key) => {
        const found = this.#found.get(key);
        if (found !== undefined) await this.#loadOne(found, wanted.has(key));
      });
    }
    return this.#failures;
  }

  /** Called models that exist, whether or not they could be loaded. */
  stepKeys(key: string): readonly string[] {
    return this.#found.get(key)?.model.stepKeys ?? [];
  }

  /** Keys of the model and of the models that it calls. */
  async #poll(key: string): Promise<void> {
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    if (this.#turns.isOver) await this.#turns.next();
    const { sources } = this.#options;
    let files: LocalizedModel | undefined;
    try {
      files = await sources.bring(key);
      const model = sources.poll(key, files, undefined);
      this.#found.set(key, { model, files });
      for (const need of model.stepKeys) if (sources.exists(need)) await this.#poll(need);
    } catch (error) {
      await files?.release();
      this.#failed(key, error);
    }
  }

  async #loadOne({ model, files }: FoundModel, isExplicit: boolean): Promise<void> {
    const { key } = model;
    if (this.#turns.isOver) await this.#turns.next();
    try {
      this.#options.checkEnsemble(model);
    } catch (error) {
      this.#failed(key, error);
      await files.release();
      return;
    }
    try {
      await this.#options.loadPolled(model, { isExplicit, isOverridden: false, files });
    } catch (error) {
      this.#failures.set(key, ServerError.from(error));
      await files.release();
    }
  }

  #failed(key: string, thrown: unknown): void {
    const error = ServerError.from(thrown);
    const detail = thrown instanceof ServerError ? error.message : describeThrown(thrown);
    this.#options.log.error("model_repository", `Poll failed for model directory '${modelKeyText(key)}': ${detail}`);
    this.#failures.set(key, error);
  }
}
