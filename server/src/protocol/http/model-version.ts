/** The version in a path: digits that must be a positive 64-bit integer (KServe V2, HTTP/REST). */
import { MAX_VERSION_DIGITS } from "../../core/limits.ts";
import { unreadableVersion } from "../version-refusal.ts";
import type { RouteMatch } from "./routes/router.ts";

const MAX_VERSION = 2n ** 63n - 1n;

/** The match with its version in canonical form: `01` is version 1. @throws ServerError */
export function expectVersion(match: RouteMatch): RouteMatch {
  const { version } = match;
  const value = version.length > MAX_VERSION_DIGITS ? MAX_VERSION + 1n : BigInt(version);
  if (value > MAX_VERSION) throw unreadableVersion(version, " (details: stol)");
  if (value === 0n) throw unreadableVersion(version, "");
  return version === String(value) ? match : { ...match, version: String(value) };
}
