/** LoRA adapters that clients loaded by name while the server runs. They last as long as the process. */

export interface RuntimeAdapter {
  readonly name: string;
  /** Name of the model that it changes. */
  readonly base: string;
  /** Absolute folder, which the engine checks. */
  readonly path: string;
}

export class RuntimeAdapters {
  readonly #byName = new Map<string, RuntimeAdapter>();

  find(name: string): RuntimeAdapter | undefined {
    return this.#byName.get(name);
  }

  /** In the order of their loads. */
  of(base: string): readonly RuntimeAdapter[] {
    return [...this.#byName.values()].filter((adapter) => adapter.base === base);
  }

  /** Takes the place of one with its name. */
  set(adapter: RuntimeAdapter): void {
    this.#byName.set(adapter.name, adapter);
  }

  delete(name: string): boolean {
    return this.#byName.delete(name);
  }
}
