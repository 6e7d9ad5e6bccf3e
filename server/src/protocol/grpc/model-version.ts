/** The text form of a model version, read as C's `strtol` reads it: "1x" is 1. Source: ISO C17, 7.22.1.4. */
import { invalidArgument } from "../../core/server-error.ts";

const EXPECTED = "version should be an integral value > 0";

/** The version in plain digits; "" stays the server's choice. @throws ServerError for what is no version */
export function normalizeModelVersion(text: string): string {
  if (text === "") return "";
  const digits = /^[ \t\n\v\f\r]*([+-]?\d+)/.exec(text)?.[1];
  const version = digits === undefined ? undefined : BigInt(digits.replace("+", ""));
  if (version === undefined || version !== BigInt.asIntN(64, version)) {
    throw invalidArgument(
      `failed to get model version from specified version string '${text}' (details: stol), ${EXPECTED}`,
    );
  }
  if (version <= 0n) throw invalidArgument(`invalid model version specified '${text}' , ${EXPECTED}`);
  return String(version);
}
