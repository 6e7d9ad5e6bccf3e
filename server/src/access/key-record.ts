/**
 * The file of API keys: one JSON document `{"keys": [...]}`. It holds digests, never keys, so that a leaked file opens nothing.
 * Reads text; knows no file system and no request.
 */

import { isObject, shownValue } from "../core/json-object.ts";
import { RESTRICTED_APIS, type RestrictedApi } from "../core/restricted-api.ts";
import { invalidArgument } from "../core/server-error.ts";

/** One row of the file. Limits that are undefined do not hold. */
export interface KeyRecord {
  /** Names the key in logs, metrics and the ledger; unique in a file. */
  readonly name: string;
  /** SHA-256 of the key's UTF-8 bytes, 64 lower-case hexadecimal digits. */
  readonly sha256: string;
  /** Model names that it may use; `*` stands for any run of characters. */
  readonly models: readonly string[];
  /** Groups of routes that it may use. */
  readonly apis: readonly RestrictedApi[];
  readonly requestsPerMinute: number | undefined;
  /** Prompt and completion tokens. */
  readonly tokensPerMinute: number | undefined;
  readonly concurrentRequests: number | undefined;
  /** Priority level of its requests, 1 = first; undefined: that of the request or the model. */
  readonly priority: number | undefined;
  /** Prompt and completion tokens in all, over restarts where a ledger is kept. */
  readonly tokenBudget: number | undefined;
  /** Milliseconds since 1970 from which the key is refused. */
  readonly expiresMs: number | undefined;
}

const SHA256 = /^[0-9a-f]{64}$/;
const NAME = /^[\w.@:-]{1,128}$/;
const FIELDS = [
  "name",
  "sha256",
  "models",
  "apis",
  "requests_per_minute",
  "tokens_per_minute",
  "concurrent_requests",
  "priority",
  "token_budget",
  "expires",
] as const;

/** @param place path of the file, for messages. @throws ServerError invalid_argument naming file, row and field */
export function parseKeyFile(text: string, place: string): readonly KeyRecord[] {
  const document = parseJson(text, place);
  if (!isObject(document) || !Array.isArray(document.keys)) {
    throw invalidArgument(`${place}: expected {"keys": [...]}, got ${shownValue(document)}`);
  }
  const records = document.keys.map((row: unknown, i) => parseRow(row, `${place}: keys[${i}]`));
  expectUnique(records, "name", place);
  expectUnique(records, "sha256", place);
  return records;
}

function parseJson(text: string, place: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalidArgument(`${place}: no JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function parseRow(row: unknown, place: string): KeyRecord {
  if (!isObject(row)) throw invalidArgument(`${place}: expected an object, got ${shownValue(row)}`);
  for (const field of Object.keys(row)) expectKnown(field, place);
  const numberOf = (field: string): number | undefined => positiveInteger(row[field], `${place}.${field}`);
  return {
    name: matching(row.name, NAME, `${place}.name`, "1 to 128 letters, digits or . @ : - _"),
    sha256: matching(row.sha256, SHA256, `${place}.sha256`, "64 lower-case hexadecimal digits, those of sha256sum"),
    models: modelPatterns(row.models, `${place}.models`),
    apis: apiNames(row.apis, `${place}.apis`),
    requestsPerMinute: numberOf("requests_per_minute"),
    tokensPerMinute: numberOf("tokens_per_minute"),
    concurrentRequests: numberOf("concurrent_requests"),
    priority: numberOf("priority"),
    tokenBudget: numberOf("token_budget"),
    expiresMs: dateMs(row.expires, `${place}.expires`),
  };
}

function expectKnown(field: string, place: string): void {
  if (FIELDS.some((known) => known === field)) return;
  const hint = field === "key" ? ": keys are stored as sha256: printf %s KEY | sha256sum" : "";
  throw invalidArgument(`${place}: unknown field "${field}"${hint}; fields are ${FIELDS.join(", ")}`);
}

function matching(value: unknown, pattern: RegExp, place: string, expected: string): string {
  if (typeof value === "string" && pattern.test(value)) return value;
  throw invalidArgument(`${place}: expected ${expected}, got ${shownValue(value)}`);
}

function modelPatterns(value: unknown, place: string): readonly string[] {
  if (value === undefined) return ["*"];
  if (Array.isArray(value) && value.every((one) => typeof one === "string" && one !== "")) return value;
  throw invalidArgument(`${place}: expected an array of model names, got ${shownValue(value)}`);
}

function apiNames(value: unknown, place: string): readonly RestrictedApi[] {
  if (value === undefined) return RESTRICTED_APIS;
  if (!Array.isArray(value)) throw invalidArgument(`${place}: expected an array of APIs, got ${shownValue(value)}`);
  return value.map((name: unknown, i) => {
    const known = RESTRICTED_APIS.find((each) => each === name);
    if (known !== undefined) return known;
    throw invalidArgument(`${place}[${i}]: expected one of ${RESTRICTED_APIS.join(", ")}, got ${shownValue(name)}`);
  });
}

function positiveInteger(value: unknown, place: string): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
  throw invalidArgument(`${place}: expected an integer of at least 1, got ${shownValue(value)}`);
}

function dateMs(value: unknown, place: string): number | undefined {
  if (value === undefined) return undefined;
  const ms = typeof value === "string" ? Date.parse(value) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  throw invalidArgument(`${place}: expected a date such as "2027-01-31T00:00:00Z", got ${shownValue(value)}`);
}

function expectUnique(records: readonly KeyRecord[], field: "name" | "sha256", place: string): void {
  const seen = new Set<string>();
  for (const [i, record] of records.entries()) {
    if (seen.has(record[field]))
      throw invalidArgument(`${place}: keys[${i}].${field}: ${record[field]} is there twice`);
    seen.add(record[field]);
  }
}
