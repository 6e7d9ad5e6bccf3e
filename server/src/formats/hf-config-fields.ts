/** Typed access to the fields of a Hugging Face JSON file; every refusal names file and field. It knows no model. */

export class HfFields {
  readonly #fields: ReadonlyMap<string, unknown>;
  readonly #at: string;

  /** `at` names the file, and the path within it for nested objects. */
  constructor(value: unknown, at: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw new Error(`${at}: expected an object`);
    this.#fields = new Map(Object.entries(value));
    this.#at = at;
  }

  /** Undefined when the field is absent or null, which Hugging Face writes for "not set". */
  get(name: string): unknown {
    return this.#fields.get(name) ?? undefined;
  }

  /** The first of `names` that is set. */
  firstOf(...names: readonly string[]): HfFields | undefined {
    for (const name of names) {
      const value = this.get(name);
      if (value !== undefined) return new HfFields(value, `${this.#at}: ${name}`);
    }
    return undefined;
  }

  int(name: string, bounds: { readonly min: number; readonly max: number; readonly default?: number }): number {
    const value = this.get(name) ?? bounds.default;
    if (Number.isSafeInteger(value) && (value as number) >= bounds.min && (value as number) <= bounds.max) {
      return value as number;
    }
    throw this.refusal(name, `an integer from ${bounds.min} to ${bounds.max}`, value);
  }

  /** A finite number above zero. */
  positive(name: string, byDefault?: number): number {
    const value = this.get(name) ?? byDefault;
    if (typeof value === "number" && Number.isFinite(value) && value > 0) return value;
    throw this.refusal(name, "a number above zero", value);
  }

  boolean(name: string, byDefault: boolean): boolean {
    const value = this.get(name) ?? byDefault;
    if (typeof value === "boolean") return value;
    throw this.refusal(name, "true or false", value);
  }

  /** One id or a list of ids; empty when absent. */
  ids(name: string, vocabSize: number): readonly number[] {
    const value = this.get(name) ?? [];
    const list: readonly unknown[] = Array.isArray(value) ? value : [value];
    const isId = (id: unknown): id is number =>
      Number.isSafeInteger(id) && (id as number) >= 0 && (id as number) < vocabSize;
    if (list.length <= vocabSize && list.every(isId)) return Object.freeze([...list]);
    throw this.refusal(name, `token ids from 0 to ${vocabSize - 1}`, value);
  }

  refusal(name: string, expected: string, value: unknown): Error {
    const got = value === undefined ? "nothing" : (JSON.stringify(value) ?? typeof value).slice(0, 80);
    return new Error(`${this.#at}: ${name}: expected ${expected}, got ${got}`);
  }
}
