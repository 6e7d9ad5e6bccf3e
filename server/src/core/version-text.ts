/**
 * The text form of a model version, read as C's `strtol` reads it: "1x" is 1, and 0 is a number as any other. Source: ISO C17,
 * 7.22.1.4.
 */
import { MAX_VERSION_DIGITS } from "./limits.ts";
import { invalidArgument } from "./server-error.ts";

/** The common form, which needs no conversion. */
const PLAIN = /^[1-9]\d{0,14}$/;
const EXPECTED = "version should be an integral value > 0";

/** The version in plain digits; "" stays the server's choice. @throws ServerError in Triton's words for what is no version */
export function canonicalVersion(text: string): string {
  if (text === "" || PLAIN.test(text)) return text;
  const digits = /^[ \t\n\v\f\r]*([+-]?\d+)/.exec(text)?.[1];
  const version =
    digits === undefined || digits.length > MAX_VERSION_DIGITS ? undefined : BigInt(digits.replace("+", ""));
  if (version === undefined || version !== BigInt.asIntN(64, version)) {
    throw invalidArgument(
      `failed to get model version from specified version string '${text}' (details: stol), ${EXPECTED}`,
    );
  }
  if (version < 0n) throw invalidArgument(`invalid model version specified '${text}' , ${EXPECTED}`);
  return String(version);
}
