/**
 * Converts a filter to an SQL condition on the column `document`; all external values become parameters. Source:
 * PostgreSQL manual, "JSON Functions and Operators". Pure.
 */
import type { Condition, Filter } from "./vector-store.ts";

/** A bound value of a statement. */
export type SqlParameter = string | number | readonly string[];

const COMPARISONS = { gt: ">", gte: ">=", lt: "<", lte: "<=" } as const;

/** Appends its values to `parameters`. */
export function filterClause(filter: Filter, parameters: SqlParameter[]): string {
  if (filter.length === 0) return "TRUE";
  return filter.map((condition) => clauseOf(condition, parameters)).join(" AND ");
}

function clauseOf({ field, test, value }: Condition, parameters: SqlParameter[]): string {
  const member = `(document -> ${bind(field, parameters)}::text)`;
  switch (test) {
    case "is":
      return `${member} = ${bind(JSON.stringify(value), parameters)}::jsonb`;
    case "not":
      return `${member} IS DISTINCT FROM ${bind(JSON.stringify(value), parameters)}::jsonb`;
    case "in":
      return `${member} IN (SELECT jsonb_array_elements(${bind(JSON.stringify(value), parameters)}::jsonb))`;
    default: {
      const number = `${bind(String(value), parameters)}::numeric`;
      // Only numbers are compared. CASE enforces the check first: the planner may reorder AND.
      return `CASE WHEN jsonb_typeof(${member}) = 'number' THEN ${member}::numeric ${COMPARISONS[test]} ${number} ELSE FALSE END`;
    }
  }
}

function bind(value: string, parameters: SqlParameter[]): string {
  parameters.push(value);
  return `$${parameters.length}`;
}
