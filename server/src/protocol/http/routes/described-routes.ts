/** The inference protocol's routes for people, one row each. Source: KServe V2, HTTP/REST; Triton's protocol extensions. */
import type { RestrictedApi } from "../../../core/restricted-api.ts";
import type { RouteName } from "./router.ts";

export interface DescribedRoute {
  readonly name: RouteName;
  readonly method: "GET" | "POST";
  /** Parts in braces stand for one segment. */
  readonly path: string;
  readonly api: RestrictedApi;
  readonly summary: string;
  /** The body is a JSON object, or JSON and tensors in binary. */
  readonly hasBody: boolean;
}

type Row = readonly [RouteName, "GET" | "POST", string, RestrictedApi, string];

const GETS: readonly Row[] = [
  ["live", "GET", "/v2/health/live", "health", "Whether the server runs"],
  ["ready", "GET", "/v2/health/ready", "health", "Whether the server can answer"],
  ["modelReady", "GET", "/v2/models/{model}/ready", "health", "Whether a model can answer"],
  ["serverMetadata", "GET", "/v2", "metadata", "Name, version and extensions of the server"],
  ["modelMetadata", "GET", "/v2/models/{model}", "metadata", "Inputs and outputs of a model"],
  ["modelConfig", "GET", "/v2/models/{model}/config", "model-config", "Configuration of a model"],
  ["allStatistics", "GET", "/v2/models/stats", "statistics", "Statistics of all models"],
  ["modelStatistics", "GET", "/v2/models/{model}/stats", "statistics", "Statistics of a model"],
  ["traceSetting", "GET", "/v2/trace/setting", "trace", "Settings of traces"],
  ["logging", "GET", "/v2/logging", "logging", "Settings of the log"],
  ["sharedMemoryStatus", "GET", "/v2/systemsharedmemory/status", "shared-memory", "Regions of shared memory"],
];

const POSTS: readonly Row[] = [
  ["infer", "POST", "/v2/models/{model}/infer", "inference", "Infer with tensors"],
  ["generate", "POST", "/v2/models/{model}/generate", "inference", "Generate text, one answer"],
  ["generateStream", "POST", "/v2/models/{model}/generate_stream", "inference", "Generate text as events"],
  ["traceSetting", "POST", "/v2/trace/setting", "trace", "Change the settings of traces"],
  ["logging", "POST", "/v2/logging", "logging", "Change the settings of the log"],
  ["index", "POST", "/v2/repository/index", "model-repository", "Models of the repositories"],
  ["load", "POST", "/v2/repository/models/{model}/load", "model-repository", "Load a model"],
  ["unload", "POST", "/v2/repository/models/{model}/unload", "model-repository", "Unload a model"],
  [
    "sharedMemoryRegister",
    "POST",
    "/v2/systemsharedmemory/region/{region}/register",
    "shared-memory",
    "Register a region of shared memory",
  ],
  [
    "sharedMemoryUnregister",
    "POST",
    "/v2/systemsharedmemory/region/{region}/unregister",
    "shared-memory",
    "Forget a region of shared memory",
  ],
];

export const V2_ROUTES: readonly DescribedRoute[] = [...GETS, ...POSTS].map(([name, method, path, api, summary]) => ({
  name,
  method,
  path,
  api,
  summary,
  hasBody: method === "POST",
}));
