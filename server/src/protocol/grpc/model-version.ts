/** The text form of a model version, read as C's `strtol` reads it: "1x" is 1. Source: ISO C17, 7.22.1.4. */
import { MAX_VERSION_DIGITS } from "../../core/limits.ts";
import { invalidArgument } from "../../core/server-error.ts";
import { EXPECTED_VERSION, unreadableVersion } from "../version-refusal.ts";

/** The version in plain digits; "" stays the server's choice. @throws ServerError for what is no version */
export function normalizeModelVersion(text: string): string {
  if (text === "") return "";
  const digits = /^[ \t\n\v\f\r]*([+-]?\d+)/.exec(text)?.[1];
  if (digits === undefined || digits.length > MAX_VERSION_DIGITS) throw unreadableVersion(text, " (details: stol)");
  const version = BigInt(digits.replace("+", ""));
  if (version !== BigInt.asIntN(64, version)) throw unreadableVersion(text, " (details: stol)");
  if (version <= 0n) throw invalidArgument(`invalid model version specified '${text}' , ${EXPECTED_VERSION}`);
  return String(version);
}
