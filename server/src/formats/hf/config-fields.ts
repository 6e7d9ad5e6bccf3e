/**
 * Typed access to the fields of a Hugging Face JSON file; errors name file and field. It knows no model. Source:
 * transformers documentation, "Configuration".
 */
import { shownValue } from "../../core/json-object.ts";

/** Differences between one model family and Llama, whose field names the callers use. */
export interface HfFieldsOptions {
  /** From the requested name to the name in the file. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Defaults of absent fields, by their names in the file. */
  readonly defaults?: Readonly<Record<string, unknown>>;
}

/** Some files list a size for each layer: equal ones are one size. */
function commonOf(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  const list: readonly unknown[] = value;
  return list.length > 0 && list.every((one) => one === list[0]) ? list[0] : value;
}

export class HfFields {
  readonly #fields: ReadonlyMap<string, unknown>;
  readonly #aliases: ReadonlyMap<string, string>;
  readonly #defaults: ReadonlyMap<string, unknown>;
  readonly #at: string;
  readonly #read = new Set<string>();
  readonly #sections = new Map<string, HfFields>();

  /** `at` names the file, and the path inside it for nested objects. */
  constructor(value: unknown, at: string, { aliases = {}, defaults = {} }: HfFieldsOptions = {}) {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw new Error(`${at}: expected an object`);
    this.#fields = new Map(Object.entries(value));
    this.#aliases = new Map(Object.entries(aliases));
    this.#defaults = new Map(Object.entries(defaults));
    this.#at = at;
  }

  /** Undefined when the field is absent or null; Hugging Face writes null for "not set". */
  get(name: string): unknown {
    const inFile = this.#nameInFile(name);
    this.#read.add(inFile);
    return this.#fields.get(inFile) ?? this.#defaults.get(inFile) ?? undefined;
  }

  /** The file has null, which takes the default of a class away: a cap or a window that is off. */
  isNull(name: string): boolean {
    const inFile = this.#nameInFile(name);
    this.#read.add(inFile);
    return this.#fields.get(inFile) === null;
  }

  /** The object in a field; undefined when it is not set. */
  section(name: string, options?: HfFieldsOptions): HfFields | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    const known = options === undefined ? this.#sections.get(name) : undefined;
    const section = known ?? new HfFields(value, `${this.#at}: ${this.#nameInFile(name)}`, options);
    this.#sections.set(name, section);
    return section;
  }

  /** Fields that the file sets and that nobody has asked for. */
  unread(): readonly (readonly [name: string, value: unknown])[] {
    return [...this.#fields].filter(([name, value]) => value !== null && !this.#read.has(name));
  }

  /** Fields that the file sets and that somebody has asked for. */
  read(): readonly string[] {
    return [...this.#fields.keys()].filter((name) => this.#read.has(name));
  }

  /** The object in the first of `names` that is set. */
  firstOf(...names: readonly string[]): HfFields | undefined {
    const name = names.find((one) => this.get(one) !== undefined);
    return name === undefined ? undefined : this.section(name);
  }

  /** Positive numbers, exactly `count` of them. */
  positives(name: string, count: number): readonly number[] {
    const value = this.get(name);
    const isPositive = (one: unknown): one is number => typeof one === "number" && Number.isFinite(one) && one > 0;
    if (Array.isArray(value) && value.length === count && value.every(isPositive)) return Object.freeze([...value]);
    throw this.refusal(name, `${count} numbers above zero`, value);
  }

  int(name: string, bounds: { readonly min: number; readonly max: number; readonly default?: number }): number {
    const value = commonOf(this.get(name)) ?? bounds.default;
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
    return new Error(`${this.#at}: ${this.#nameInFile(name)}: expected ${expected}, got ${shownValue(value, 80)}`);
  }
  #nameInFile(name: string): string {
    return this.#aliases.get(name) ?? name;
  }
}
