/**
 * Finds the route of a path (KServe V2, HTTP/REST). Pure. Paths are compared as sent, as Triton does: no decoding, no
 * trailing slash. A name is anything but "/", a version digits only.
 */

export type RouteName =
  | "live"
  | "ready"
  | "serverMetadata"
  | "modelReady"
  | "modelMetadata"
  | "modelConfig"
  | "modelStatistics"
  | "allStatistics"
  | "infer"
  | "generate"
  | "generateStream"
  | "traceSetting"
  | "logging"
  | "index"
  | "load"
  | "unload"
  | "sharedMemoryStatus"
  | "sharedMemoryRegister"
  | "sharedMemoryUnregister";

export interface RouteMatch {
  readonly name: RouteName;
  /** Model, "" for none. */
  readonly model: string;
  /** Digits, "" for none. */
  readonly version: string;
  /** Repository named in the path, "" for none. */
  readonly repository: string;
  /** Shared-memory region, "" for none. */
  readonly region: string;
  readonly memory: "system" | "cuda";
}

const NOTHING: Omit<RouteMatch, "name"> = { model: "", version: "", repository: "", region: "", memory: "system" };

const FIXED: ReadonlyMap<string, RouteMatch> = new Map<string, RouteMatch>([
  ["/v2/health/live", { ...NOTHING, name: "live" }],
  ["/v2/health/ready", { ...NOTHING, name: "ready" }],
  ["/v2", { ...NOTHING, name: "serverMetadata" }],
  ["/v2/models/stats", { ...NOTHING, name: "allStatistics" }],
  ["/v2/trace/setting", { ...NOTHING, name: "traceSetting" }],
  ["/v2/logging", { ...NOTHING, name: "logging" }],
  ["/v2/repository/index", { ...NOTHING, name: "index" }],
]);

/** Path endings after a model and its version; "" is none. */
const OF_MODEL: ReadonlyMap<string, RouteName> = new Map<string, RouteName>([
  ["", "modelMetadata"],
  ["ready", "modelReady"],
  ["config", "modelConfig"],
  ["stats", "modelStatistics"],
  ["infer", "infer"],
  ["generate", "generate"],
  ["generate_stream", "generateStream"],
]);

const OF_MEMORY: ReadonlyMap<string, RouteName> = new Map<string, RouteName>([
  ["status", "sharedMemoryStatus"],
  ["register", "sharedMemoryRegister"],
  ["unregister", "sharedMemoryUnregister"],
]);

const DIGITS = /^[0-9]+$/;

export function matchRoute(path: string): RouteMatch | undefined {
  const fixed = FIXED.get(path);
  if (fixed !== undefined) return fixed;
  const parts = path.split("/");
  if (parts[0] !== "" || parts[1] !== "v2") return undefined;
  switch (parts[2]) {
    case "models":
      return matchModel(parts);
    case "repository":
      return matchRepository(parts);
    case "systemsharedmemory":
      return matchMemory(parts, "system");
    case "cudasharedmemory":
      return matchMemory(parts, "cuda");
    default:
      return undefined;
  }
}

/** /v2/models/M[/versions/V][/action], /v2/models/M/trace/setting */
function matchModel(parts: readonly string[]): RouteMatch | undefined {
  const model = parts[3] ?? "";
  if (model === "") return undefined;
  if (parts[4] === "trace") {
    return parts[5] === "setting" && parts.length === 6 ? { ...NOTHING, name: "traceSetting", model } : undefined;
  }
  const hasVersion = parts[4] === "versions";
  const version = hasVersion ? (parts[5] ?? "") : "";
  if (hasVersion && !DIGITS.test(version)) return undefined;
  const rest = hasVersion ? 6 : 4;
  if (parts.length > rest + 1) return undefined;
  const action = parts[rest];
  const name = action === "" ? undefined : OF_MODEL.get(action ?? "");
  if (name === undefined) return undefined;
  return { name, model, version, repository: "", region: "", memory: "system" };
}

/** /v2/repository[/R]/index, /v2/repository[/R]/models/M/load */
function matchRepository(parts: readonly string[]): RouteMatch | undefined {
  if (parts.length === 5 && parts[4] === "index" && parts[3] !== "") {
    return { ...NOTHING, name: "index", repository: parts[3] ?? "" };
  }
  const from = parts.length - 3;
  const action = parts[from + 2];
  const model = parts[from + 1] ?? "";
  const isKnown = action === "load" || action === "unload";
  if (!isKnown || parts[from] !== "models" || model === "" || from < 3 || from > 4) return undefined;
  const repository = from === 4 ? (parts[3] ?? "") : "";
  return from === 4 && repository === "" ? undefined : { ...NOTHING, name: action, model, repository };
}

/** /v2/systemsharedmemory[/region/N]/action; the handler refuses to register a region without a name. */
function matchMemory(parts: readonly string[], memory: "system" | "cuda"): RouteMatch | undefined {
  const isNamed = parts.length === 6 && parts[3] === "region" && parts[4] !== "";
  if (!isNamed && parts.length !== 4) return undefined;
  const name = OF_MEMORY.get(parts[isNamed ? 5 : 3] ?? "");
  if (name === undefined) return undefined;
  return { ...NOTHING, name, memory, region: isNamed ? (parts[4] ?? "") : "" };
}
