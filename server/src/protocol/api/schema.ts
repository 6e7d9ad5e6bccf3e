/**
 * Schemas of request bodies: each reads a JSON value to its type, and describes itself as JSON Schema (2020-12), so that
 * validation and documentation come from one table. Errors name the parameter, as OpenAI's do.
 */

import { isObject, type JsonObject } from "../../core/json-object.ts";
import { MAX_ARRAY_ITEMS } from "../../core/limits.ts";
import { type ApiError, invalidParameter, missingParameter } from "./api-error.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

export interface Schema<T> {
  readonly json: JsonSchema;
  /** @throws ApiError that names `path` */
  read(value: unknown, path: string): T;
}

export { isObject, type JsonObject };

export function string(maxLength: number = Number.POSITIVE_INFINITY): Schema<string> {
  return {
    json: Number.isFinite(maxLength) ? { type: "string", maxLength } : { type: "string" },
    read(value, path) {
      if (typeof value !== "string") throw wrongType(path, "a string", value);
      if (value.length <= maxLength) return value;
      throw invalidParameter(
        path,
        "string_above_max_length",
        `Invalid '${path}': string too long. Expected a string with maximum length ${maxLength}, but got a string with length ${value.length} instead.`,
      );
    },
  };
}

export function oneOf<const T extends string>(...values: readonly T[]): Schema<T> {
  return {
    json: { type: "string", enum: values },
    read(value, path) {
      const found = values.find((each) => each === value);
      if (found !== undefined) return found;
      if (typeof value !== "string") throw wrongType(path, `one of ${listOf(values)}`, value);
      const text = `Invalid value: '${value.slice(0, MAX_SHOWN)}'. Supported values are: ${listOf(values)}.`;
      throw invalidParameter(path, "invalid_value", text);
    },
  };
}

export function boolean(): Schema<boolean> {
  return {
    json: { type: "boolean" },
    read(value, path) {
      if (typeof value === "boolean") return value;
      throw wrongType(path, "a boolean", value);
    },
  };
}

export function number(minimum: number, maximum: number): Schema<number> {
  return numeric("decimal", minimum, maximum);
}

export function integer(minimum: number, maximum: number = Number.MAX_SAFE_INTEGER): Schema<number> {
  return numeric("integer", minimum, maximum);
}

function numeric(kind: "decimal" | "integer", minimum: number, maximum: number): Schema<number> {
  const article = kind === "integer" ? "an integer" : "a decimal";
  return {
    json: { type: kind === "integer" ? "integer" : "number", minimum, maximum },
    read(value, path) {
      if (typeof value !== "number" || (kind === "integer" && !Number.isInteger(value))) {
        throw wrongType(path, article, value);
      }
      if (value < minimum) {
        const text = `Invalid '${path}': ${kind} below minimum value. Expected a value >= ${minimum}, but got ${value} instead.`;
        throw invalidParameter(path, `${kind}_below_min_value`, text);
      }
      if (value > maximum) {
        const text = `Invalid '${path}': ${kind} above maximum value. Expected a value <= ${maximum}, but got ${value} instead.`;
        throw invalidParameter(path, `${kind}_above_max_value`, text);
      }
      return value;
    },
  };
}

export function array<T>(item: Schema<T>, minItems = 0, maxItems: number = MAX_ARRAY_ITEMS): Schema<readonly T[]> {
  return {
    json: { type: "array", items: item.json, minItems, maxItems },
    read(value, path) {
      if (!Array.isArray(value)) throw wrongType(path, "an array", value);
      if (value.length < minItems) {
        const text = `Invalid '${path}': empty array. Expected an array with minimum length ${minItems}, but got an empty array instead.`;
        throw invalidParameter(path, "empty_array", text);
      }
      if (value.length > maxItems) {
        const text = `Invalid '${path}': array too long. Expected an array with maximum length ${maxItems}, but got an array with length ${value.length} instead.`;
        throw invalidParameter(path, "array_above_max_length", text);
      }
      return value.map((each, i) => item.read(each, `${path}[${i}]`));
    },
  };
}

/** An object whose members this server hands on without a look inside. */
export function anyObject(): Schema<JsonObject> {
  return {
    json: { type: "object" },
    read(value, path) {
      if (isObject(value)) return value;
      throw wrongType(path, "an object", value);
    },
  };
}

export function anything(): Schema<unknown> {
  return { json: {}, read: (value) => value };
}

export function record<T>(member: Schema<T>): Schema<ReadonlyMap<string, T>> {
  return {
    json: { type: "object", additionalProperties: member.json },
    read(value, path) {
      if (!isObject(value)) throw wrongType(path, "an object", value);
      return new Map(Object.entries(value).map(([key, each]) => [key, member.read(each, `${path}.${key}`)]));
    },
  };
}

/** Chooses by the value: the first test that holds. */
export function choice<T>(
  expected: string,
  ...options: readonly (readonly [test: (value: unknown) => boolean, schema: Schema<T>])[]
): Schema<T> {
  return {
    json: { anyOf: options.map(([, schema]) => schema.json) },
    read(value, path) {
      const option = options.find(([test]) => test(value));
      if (option === undefined) throw wrongType(path, expected, value);
      return option[1].read(value, path);
    },
  };
}

/** Reads the value and then changes its form. */
export function mapped<S, T>(schema: Schema<S>, change: (value: S, path: string) => T): Schema<T> {
  return { json: schema.json, read: (value, path) => change(schema.read(value, path), path) };
}

export interface Field<T> {
  readonly schema: Schema<T>;
  readonly isRequired: boolean;
}

export function required<T>(schema: Schema<T>): Field<T> {
  return { schema, isRequired: true };
}

/** `null` counts as absent, as OpenAI's clients send it. */
export function optional<T>(schema: Schema<T>): Field<T | undefined> {
  return { schema, isRequired: false };
}

type Fields<T> = { readonly [Key in keyof Required<T>]: Field<T[Key]> };

/** Unknown members are ignored. */
export function object<T extends object>(fields: Fields<T>): Schema<T> {
  const entries: readonly (readonly [string, Field<unknown>])[] = Object.entries(fields);
  const properties = Object.fromEntries(entries.map(([name, { schema }]) => [name, schema.json]));
  const needed = entries.filter(([, field]) => field.isRequired).map(([name]) => name);
  return {
    json: { type: "object", properties, ...(needed.length === 0 ? {} : { required: needed }) },
    read(value, path) {
      if (!isObject(value)) throw wrongType(path, "an object", value);
      const result: Record<string, unknown> = {};
      for (const [name, field] of entries) {
        const member = readMember(value, name, field, path === "" ? name : `${path}.${name}`);
        if (member !== undefined) result[name] = member;
      }
      return result as T; // each member was read by the schema of its type
    },
  };
}

function readMember(value: JsonObject, name: string, { schema, isRequired }: Field<unknown>, path: string): unknown {
  const member = Object.hasOwn(value, name) ? value[name] : undefined;
  if (member !== undefined && member !== null) return schema.read(member, path);
  if (isRequired && member === null) return schema.read(member, path);
  if (isRequired) throw missingParameter(path);
  return undefined;
}

const MAX_SHOWN = 100;

/** A value of a request within a message. JSON may hold objects that do not convert to a text: `{"toString": 1}`. */
export function shown(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "null");
  return text.slice(0, MAX_SHOWN);
}

function wrongType(path: string, expected: string, value: unknown): ApiError {
  const where = path === "" ? "the request body" : `'${path}'`;
  const text = `Invalid type for ${where}: expected ${expected}, but got ${describe(value)} instead.`;
  return invalidParameter(path, "invalid_type", text);
}

/** The kind of a value, as error texts name it. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "number") return Number.isInteger(value) ? "an integer" : "a decimal";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

function listOf(values: readonly string[]): string {
  const quoted = values.map((value) => `'${value}'`);
  const last = quoted.at(-1) ?? "";
  return quoted.length < 2 ? last : `${quoted.slice(0, -1).join(", ")}, and ${last}`;
}
