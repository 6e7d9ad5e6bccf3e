/** The models with their versions, as the console lists them. Source: Triton's model repository extension. */
import type { ModelIndexEntry, ModelMetadata, ModelServer } from "../../core/model-server.ts";
import type { CallAccess } from "../call-access.ts";
import { ownRows } from "../call-access.ts";
import type { ConsoleHost, HostedVersion } from "./console-host.ts";
import type { ConsoleModel, ConsoleOverview, ConsoleTensor, ConsoleVersion } from "./console-types.ts";

export interface OverviewParts {
  readonly server: ModelServer;
  readonly host: ConsoleHost;
  readonly hasOpenAi: boolean;
  /** Takes and gives text. */
  readonly isText: (model: string) => boolean;
}

export function overview(parts: OverviewParts, access: CallAccess | undefined): ConsoleOverview {
  const { server, host, hasOpenAi } = parts;
  const rows = ownRows(server.index(false), access);
  const hosted = new Map(host.versions().map((each) => [`${each.name}/${each.version}`, each]));
  return {
    server: { name: server.name, version: server.version, isReady: server.ready() },
    isExplicit: server.isExplicit,
    hasOpenAi,
    models: [...byName(rows)].map(([name, entries]) => modelOf(parts, name, entries, hosted)),
  };
}

function byName(rows: readonly ModelIndexEntry[]): ReadonlyMap<string, readonly ModelIndexEntry[]> {
  const found = new Map<string, ModelIndexEntry[]>();
  for (const row of rows) found.set(row.name, [...(found.get(row.name) ?? []), row]);
  return found;
}

function modelOf(
  parts: OverviewParts,
  name: string,
  entries: readonly ModelIndexEntry[],
  hosted: ReadonlyMap<string, HostedVersion>,
): ConsoleModel {
  const trialOf = parts.host.editor.originalOf(name);
  const versions = entries.flatMap((entry): ConsoleVersion[] => {
    if (entry.state === undefined && entry.version === undefined) return [];
    const version = entry.version ?? "";
    const state = { version, state: entry.state ?? "UNKNOWN", reason: entry.reason ?? "" };
    const served = hosted.get(`${name}/${version}`);
    return [served === undefined ? state : { ...state, ...detailsOf(parts, served) }];
  });
  return { name, versions, ...(trialOf === undefined ? {} : { trialOf }) };
}

function detailsOf({ server, host, isText }: OverviewParts, hosted: HostedVersion): Partial<ConsoleVersion> {
  const { name, version, config } = hosted;
  const { inputs, outputs } = server.modelMetadata(name, version);
  const optional = new Set(config.input.filter((input) => input.optional).map((input) => input.name));
  return {
    backend: config.ensemble_scheduling === undefined ? config.backend : "ensemble",
    instances: { count: hosted.numInstances, kinds: kindsOf(config.instance_group) },
    loadSeconds: hosted.loadSeconds,
    maxBatchSize: config.max_batch_size,
    isEnsemble: config.ensemble_scheduling !== undefined,
    isDecoupled: server.model(name, version).decoupled,
    inputs: tensorsOf(inputs, optional),
    outputs: tensorsOf(outputs, new Set()),
    isText: isText(name),
    memoryBytes: memoryOf(host, hosted),
  };
}

function kindsOf(groups: HostedVersion["config"]["instance_group"]): readonly string[] {
  return [...new Set(groups.map(({ kind }) => kind.replace("KIND_", "")))];
}

function tensorsOf(tensors: ModelMetadata["inputs"], optional: ReadonlySet<string>): readonly ConsoleTensor[] {
  return tensors.map(({ name, datatype, shape }) => ({ name, datatype, shape, isOptional: optional.has(name) }));
}

function memoryOf(host: ConsoleHost, { name, version }: HostedVersion): Readonly<Record<string, number>> {
  const bytes: Record<string, number> = {};
  for (const { labels, value } of host.samples("nv_trt_llm_runtime_memory_metrics")) {
    const kind = labels.memory_type;
    if (labels.model === name && labels.version === version && kind !== undefined && value > 0) bytes[kind] = value;
  }
  return bytes;
}
