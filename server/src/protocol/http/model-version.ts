/** The version in a path: digits that must be a positive 64-bit integer (KServe V2, HTTP/REST). */
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { RouteMatch } from "./routes/router.ts";

const MAX_VERSION = 2n ** 63n - 1n;
/** More digits are out of range in every case, and costly to convert. */
const MAX_DIGITS = 64;

/** The match with its version in canonical form: `01` is version 1. @throws ServerError */
export function expectVersion(match: RouteMatch): RouteMatch {
  const { version } = match;
  const value = version.length > MAX_DIGITS ? MAX_VERSION + 1n : BigInt(version);
  if (value > MAX_VERSION) throw refused(version, " (details: stol)");
  if (value === 0n) throw refused(version, "");
  return version === String(value) ? match : { ...match, version: String(value) };
}

function refused(version: string, details: string): ServerError {
  return invalidArgument(
    `failed to get model version from specified version string '${version}'${details}, version should be an integral value > 0`,
  );
}
