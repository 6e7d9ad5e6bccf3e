/**
 * Ensembles whose models change beneath them: which ones are concerned, what their plans rest on, and which wait for a model that
 * was taken away. Loads nothing.
 */
import type { ModelRecord } from "./model-record.ts";
import type { ModelVersion } from "./model-version.ts";

interface Withdrawn {
  readonly stepKeys: readonly string[];
  readonly isExplicit: boolean;
}

export class EnsembleCallers {
  /** Not served because of a model that they call. */
  readonly #withdrawn = new Map<string, Withdrawn>();
  /** Models that were loaded, and whose callers have not been looked at since. */
  readonly #changed = new Set<string>();

  changed(key: string): void {
    this.#withdrawn.delete(key);
    this.#changed.add(key);
  }

  /** It is not served, and is to be tried again when something that it calls is loaded. */
  wait(key: string, stepKeys: readonly string[], isExplicit: boolean): void {
    this.#withdrawn.set(key, { stepKeys, isExplicit });
  }

  /** A user does not want it any more. */
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

  /** Ensembles, loaded or withdrawn, that call what has changed; each change is told once. */
  takeConcerned(records: ReadonlyMap<string, ModelRecord>): string[] {
    const changed = [...this.#changed];
    this.#changed.clear();
    const calls = (steps: readonly string[]): boolean => changed.some((key) => steps.includes(key));
    const loaded = [...records].filter(([, { polled }]) => calls(polled.stepKeys)).map(([key]) => key);
    return [...loaded, ...[...this.#withdrawn].filter(([, { stepKeys }]) => calls(stepKeys)).map(([key]) => key)];
  }
}

/** What of the models that an ensemble calls decides its plan and its labels. */
export function stepsText(stepKeys: readonly string[], ready: (key: string) => readonly ModelVersion[]): string {
  const texts = stepKeys.map((key) =>
    ready(key).map(({ version, config, decoupled, labels }) => {
      const { input, output, max_batch_size } = config;
      return [version, input, output, max_batch_size, decoupled, [...labels]];
    }),
  );
  return JSON.stringify(texts);
}
