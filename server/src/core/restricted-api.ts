/** Groups of routes that access control names (Triton documentation, "Inference Protocols", Limit Endpoint Access). */
export const RESTRICTED_APIS = [
  "health",
  "metadata",
  "inference",
  "shared-memory",
  "model-config",
  "model-repository",
  "statistics",
  "trace",
  "logging",
] as const;

export type RestrictedApi = (typeof RESTRICTED_APIS)[number];
