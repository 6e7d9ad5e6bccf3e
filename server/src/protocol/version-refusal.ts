/** The refusal of a version that is no number, for every protocol. Source: GetModelVersionFromString of Triton. */
import { invalidArgument, type ServerError } from "../core/server-error.ts";

export const EXPECTED_VERSION = "version should be an integral value > 0";

/** `details`: why it could not be read, as Triton adds it. */
export function unreadableVersion(version: string, details: "" | " (details: stol)"): ServerError {
  return invalidArgument(
    `failed to get model version from specified version string '${version}'${details}, ${EXPECTED_VERSION}`,
  );
}
