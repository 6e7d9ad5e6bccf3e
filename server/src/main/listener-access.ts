/** Whom each listener of a running server lets in. Part of the composition root. */
import type { KeyGate } from "../access/key-gate.ts";
import type { KeyedProtocol, ServerOptions } from "../config/flags/server-options.ts";
import { Cors } from "../protocol/http/cors.ts";
import type { RestrictedGroup } from "../protocol/restriction.ts";

export type Protocol = "grpc" | "http" | "openai" | "sagemaker" | "vertex_ai" | "metrics";

/** As `--api-keys-for` names them. */
const KEYED_NAMES: Readonly<Record<Protocol, KeyedProtocol | undefined>> = {
  grpc: "grpc",
  http: "v2",
  openai: "openai",
  sagemaker: "sagemaker",
  vertex_ai: "vertex-ai",
  metrics: undefined,
};

/** The gate of a listener; undefined: its calls need no API key. */
export function keysFor(
  protocol: Protocol,
  { options, keys }: { readonly options: ServerOptions; readonly keys: KeyGate | undefined },
): KeyGate | undefined {
  const name: KeyedProtocol | undefined = KEYED_NAMES[protocol];
  return name !== undefined && options.openai.apiKeysFor.includes(name) ? keys : undefined;
}

/** Undefined: no page of another origin reads the metrics. */
export function metricsCors({ http }: ServerOptions): Cors | undefined {
  const { origins, includesMetrics } = http.cors;
  return includesMetrics ? new Cors(origins) : undefined;
}

/** Headers that groups of routes ask for. */
export function restrictedGroups(accessKeys: ServerOptions["http"]["accessKeys"]): RestrictedGroup[] {
  return [...accessKeys].map(([api, { header, value }]) => ({ apis: [api], key: header, value }));
}
