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

/** The groups of Triton's own OpenAI front end (server repository, python/openai, "Limit Endpoint Access"). */
export const OPENAI_RESTRICTED_APIS = [
  "inference",
  "embedding",
  "model-repository",
  "model-management",
  "metrics",
  "health",
] as const;

export type OpenAiRestrictedApi = (typeof OPENAI_RESTRICTED_APIS)[number];
