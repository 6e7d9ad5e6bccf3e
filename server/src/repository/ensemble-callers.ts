/**
 * Tracks which ensembles depend on which models: plans to rebuild after a reload, and ensembles withdrawn with a model.
 * Loads nothing.
 */
import { nameOfKey } from "./model-key.ts";
import type { ModelRecord } from "./model-record.ts";
import type { ModelVersion } from "./model-version.ts";

interface Withdrawn {
  readonly stepKeys: readonly string[];
  readonly isExplicit: boolean;
}

export class EnsembleCallers {
  /** Not served, because a model that they call is unavailable. */
  readonly #withdrawn = new Map<string, Withdrawn>();
  /** Models loaded, or gone from their repository, since their callers were last checked. */
  readonly #changed = new Set<string>();

  changed(key: string): void {
    this.#withdrawn.delete(key);
    this.#changed.add(key);
  }

  /** A model is not served any more, and another repository serves one of that name. */
  moved(key: string): void {
    this.#changed.add(key);
  }

  /** Marks an ensemble as withdrawn: it is retried when one of its models is loaded. */
  wait(key: string, stepKeys: readonly string[], isExplicit: boolean): void {
    this.#withdrawn.set(key, { stepKeys, isExplicit });
  }

  /** A user unloaded it. */
  forget(key: string): boolean {
    return this.#withdrawn.delete(key);
  }

  withdrawn(): readonly string[] {
    return [...this.#withdrawn.keys()];
  }

  /** Whether a user has named it; undefined when it is not withdrawn. */
  wasExplicit(key: string): boolean | undefined {
    return this.#withdrawn.get(key)?.isExplicit;
  }

  /**
   * Ensembles, loaded or withdrawn, that call a changed model or one of its name, which they may have to call instead;
   * each change is reported once.
   */
  takeConcerned(records: ReadonlyMap<string, ModelRecord>): string[] {
    const changed = new Set([...this.#changed].map(nameOfKey));
    this.#changed.clear();
    const calls = (steps: readonly string[]): boolean => steps.some((step) => changed.has(nameOfKey(step)));
    const loaded = [...records].filter(([, { polled }]) => calls(polled.stepKeys)).map(([key]) => key);
    return [...loaded, ...[...this.#withdrawn].filter(([, { stepKeys }]) => calls(stepKeys)).map(([key]) => key)];
  }
}

/** The called models, and their properties that determine an ensemble's plan and labels. */
export function stepsText(stepKeys: readonly string[], ready: (key: string) => readonly ModelVersion[]): string {
  const texts = stepKeys.map((key) => [
    key,
    ...ready(key).map(({ version, config, decoupled, labels }) => {
      const { input, output, max_batch_size } = config;
      return [version, input, output, max_batch_size, decoupled, [...labels]];
    }),
  ]);
  return JSON.stringify(texts);
}

/** Loaded ensembles that call a model, directly or indirectly; outer callers first. */
export function callersOf(key: string, records: ReadonlyMap<string, ModelRecord>): string[] {
  const direct = [...records].filter(([, { polled }]) => polled.stepKeys.includes(key));
  return direct.flatMap(([caller]) => [...callersOf(caller, records), caller]);
}
