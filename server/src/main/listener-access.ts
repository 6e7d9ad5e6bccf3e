/** Whom each listener of a running server lets in. Part of the composition root. */
import type { KeyGate } from "../access/key-gate.ts";
import type { KeyedProtocol, ServerOptions } from "../config/flags/server-options.ts";
import { OPENAI_RESTRICTED_APIS, type OpenAiRestrictedApi } from "../core/restricted-api.ts";
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

/**
 * The same for the OpenAI routes. Embeddings are inference, and the management of models belongs to their repository,
 * unless they have a header of their own: versions of Triton's front end differ in this.
 */
export function openAiRestrictedGroups({ openai }: ServerOptions): RestrictedGroup<OpenAiRestrictedApi>[] {
  const { accessKeys } = openai;
  const lockOf = (api: OpenAiRestrictedApi) => {
    const wider = WIDER[api];
    return accessKeys.get(api) ?? (wider === undefined ? undefined : accessKeys.get(wider));
  };
  return OPENAI_RESTRICTED_APIS.flatMap((api) => {
    const lock = lockOf(api);
    return lock === undefined ? [] : [{ apis: [api], key: lock.header, value: lock.value }];
  });
}

const WIDER: Partial<Readonly<Record<OpenAiRestrictedApi, OpenAiRestrictedApi>>> = {
  embedding: "inference",
  "model-management": "model-repository",
};

/** Headers that groups of routes ask for. */
export function restrictedGroups(accessKeys: ServerOptions["http"]["accessKeys"]): RestrictedGroup[] {
  return [...accessKeys].map(([api, { header, value }]) => ({ apis: [api], key: header, value }));
}
