/** Reads single fields of an image processor's description, with errors that name the field. Pure. */

import { shownValue } from "@nereid/server/core/json-object";
import { invalidArgument, type ServerError } from "@nereid/server/core/server-error";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

const NUM_CHANNELS = 3;

export class ProcessorFields {
  readonly #fields: ReadonlyMap<string, Json>;
  readonly #where: string;

  constructor(fields: ReadonlyMap<string, Json>, where: string) {
    this.#fields = fields;
    this.#where = where;
  }

  get(key: string): Json | undefined {
    return this.#fields.get(key) ?? undefined;
  }

  flag(key: string, fallback: boolean): boolean {
    const value = this.get(key) ?? fallback;
    if (typeof value === "boolean") return value;
    throw this.wrong(key, "true or false");
  }

  /** A finite number, `least` or more. */
  number(key: string, fallback: number, least: number = Number.NEGATIVE_INFINITY): number {
    const value = this.get(key) ?? fallback;
    if (typeof value === "number" && Number.isFinite(value) && value >= least) return value;
    throw this.wrong(key, least === Number.NEGATIVE_INFINITY ? "a number" : `a number of at least ${least}`);
  }

  /** One number per RGB channel. */
  channels(key: string, fallback: readonly number[]): readonly number[] {
    const value = this.get(key) ?? fallback;
    const values = typeof value === "number" ? [value, value, value] : value;
    if (!Array.isArray(values) || values.length !== NUM_CHANNELS) throw this.wrong(key, "three numbers");
    return values.map((item: unknown) => {
      if (typeof item === "number" && Number.isFinite(item)) return item;
      throw this.wrong(key, "three numbers");
    });
  }

  /** Object members with integer values; a plain number stands for all of `keys`. */
  lengths(key: string, keysOfNumber: readonly string[]): ReadonlyMap<string, number> | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    const members: [string, unknown][] =
      typeof value === "object" && !Array.isArray(value)
        ? Object.entries(value as object).filter(([, item]) => item !== null)
        : keysOfNumber.map((name) => [name, value]);
    return new Map(members.map(([name, item]) => [name, this.#length(`${key}.${name}`, item)]));
  }

  wrong(key: string, expected: string): ServerError {
    const got = shownValue(this.get(key.split(".")[0] ?? key));
    return invalidArgument(`${this.#where}: '${key}' must be ${expected}, got ${got}`);
  }

  #length(key: string, value: unknown): number {
    if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
    throw this.wrong(key, "a whole number above 0");
  }
}
