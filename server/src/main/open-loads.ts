/** The warning of a server on which any client can run code by a load request. Decides from the flags alone. */
import type { ServerOptions } from "../config/flags/server-options.ts";
import { unixPath } from "../protocol/bind.ts";

const LOOPBACK = /^(127\.|::1$|localhost$)/;

/** Undefined: load requests bring no files, need a key, or come from this machine alone. */
export function openLoadsWarning({ repository, http, grpc }: ServerOptions): string | undefined {
  if (repository.controlMode !== "explicit" || repository.loadOverrides === "names-only") return undefined;
  const open = [["--http-restricted-api", http] as const, ["--grpc-restricted-protocol", grpc] as const].filter(
    ([, { isEnabled, address, accessKeys }]) =>
      isEnabled && isReachable(address) && !accessKeys.has("model-repository"),
  );
  if (open.length === 0) return undefined;
  const flags = open.map(([flag]) => flag).join(" and ");
  return `Any client that reaches this server can run code in it: load requests may bring models. Set --model-load-overrides=names-only, or restrict model-repository by ${flags}`;
}

function isReachable(address: string): boolean {
  return unixPath(address) === undefined && !LOOPBACK.test(address);
}
