/**
 * Filters on documents, in MongoDB's query syntax as JSON: parsing, and evaluation on a document. Source: MongoDB
 * manual, "Query and Projection Operators". Pure.
 */
import { MAX_FILTER_CHOICES, MAX_FILTER_CONDITIONS, MAX_FILTER_FIELD_CHARS } from "@nereid/server/core/limits";
import { invalidArgument, type ServerError } from "@nereid/server/core/server-error";
import type { Condition, DocumentObject, DocumentValue, Filter } from "./vector-store.ts";

const OPERATORS: ReadonlyMap<string, Condition["test"]> = new Map([
  ["$eq", "is"],
  ["$ne", "not"],
  ["$in", "in"],
  ["$gt", "gt"],
  ["$gte", "gte"],
  ["$lt", "lt"],
  ["$lte", "lte"],
]);

/** `where` names the input or parameter. "" means no condition. @throws ServerError */
export function parseFilter(text: string, where: string): Filter {
  if (text.trim() === "") return [];
  const value = parseJson(text);
  if (!isObject(value)) throw wrong(where, `a JSON object such as {"color": "red", "year": {"$gte": 2020}}`, text);
  const filter = Object.entries(value).flatMap(([field, wanted]) => conditionsOf(field, wanted, where));
  if (filter.length > MAX_FILTER_CONDITIONS) {
    throw invalidArgument(`${where} has ${filter.length} conditions, expected at most ${MAX_FILTER_CONDITIONS}`);
  }
  return filter;
}

export function matches(document: DocumentObject, filter: Filter): boolean {
  return filter.every((condition) => holds(document, condition));
}

function holds(document: DocumentObject, { field, test, value }: Condition): boolean {
  const found = Object.hasOwn(document, field) ? document[field] : undefined;
  switch (test) {
    case "is":
      return isSame(found, value);
    case "not":
      return !isSame(found, value);
    case "in":
      return Array.isArray(value) && value.some((choice) => isSame(found, choice));
    case "gt":
      return typeof found === "number" && found > Number(value);
    case "gte":
      return typeof found === "number" && found >= Number(value);
    case "lt":
      return typeof found === "number" && found < Number(value);
    case "lte":
      return typeof found === "number" && found <= Number(value);
  }
}

function conditionsOf(field: string, wanted: DocumentValue, where: string): Condition[] {
  if (field.length > MAX_FILTER_FIELD_CHARS) {
    throw wrong(where, `names of members, of 1 to ${MAX_FILTER_FIELD_CHARS} characters`, `${field.length}: ${field}`);
  }
  if (field === "" || field.startsWith("$") || field.includes(".")) {
    throw wrong(
      where,
      `names of members, of 1 to ${MAX_FILTER_FIELD_CHARS} characters without '$' in front and dots`,
      field,
    );
  }
  if (!isObject(wanted)) return [checked({ field, test: "is", value: wanted }, where)];
  return Object.entries(wanted).map(([operator, value]) => {
    const test = OPERATORS.get(operator);
    if (test === undefined) throw wrong(where, `one of ${[...OPERATORS.keys()].join(", ")}`, operator);
    return checked({ field, test, value }, where);
  });
}

function checked(condition: Condition, where: string): Condition {
  const { test, value } = condition;
  if (test === "in") {
    if (Array.isArray(value) && value.length > MAX_FILTER_CHOICES) {
      throw wrong(where, `at most ${MAX_FILTER_CHOICES} values for $in`, String(value.length));
    }
    if (!Array.isArray(value) || !value.every(isPlain)) {
      throw wrong(
        where,
        `a list of at most ${MAX_FILTER_CHOICES} texts, numbers or booleans for $in`,
        JSON.stringify(value),
      );
    }
  } else if (test === "is" || test === "not") {
    if (!isPlain(value))
      throw wrong(where, "a text, a number, a boolean or null to compare with", JSON.stringify(value));
  } else if (typeof value !== "number") {
    throw wrong(where, "a number for $gt, $gte, $lt and $lte", JSON.stringify(value));
  }
  return condition;
}

/** An absent member is not null, as in a table of documents. */
function isSame(found: DocumentValue | undefined, wanted: DocumentValue): boolean {
  return found === wanted;
}

function isPlain(value: unknown): boolean {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}

function isObject(value: DocumentValue | undefined): value is DocumentObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parseJson(text: string): DocumentValue | undefined {
  try {
    return JSON.parse(text) as DocumentValue;
  } catch {
    return undefined;
  }
}

function wrong(where: string, expected: string, got: string): ServerError {
  const shown = got.length > 100 ? `${got.slice(0, 100)}…` : got;
  return invalidArgument(`${where} expects ${expected}, got ${shown}`);
}
