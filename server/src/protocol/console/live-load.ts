/**
 * The counters that the live view draws, from statistics and metric families that exist anyway. The page computes rates:
 * the server keeps nothing for a console. Source: Triton's statistics extension; Triton documentation, "Metrics".
 */
import process from "node:process";
import type { ModelStatistics } from "../../core/model-server.ts";
import type { MetricSample } from "../../observe/metrics.ts";
import type { ConsoleHost, HostedVersion } from "./console-host.ts";
import type { ConsoleLive, ConsoleLlm, ConsoleModelLoad } from "./console-types.ts";

const US_PER_S = 1e6;

type Samples = ConsoleHost["samples"];
/** Values of a family by label value, or "" for a plain counter. */
type Values = ReadonlyMap<string, number>;
/** By model and version. */
type Families = ReadonlyMap<string, ReadonlyMap<string, Values>>;

/** Families with the label that tells their series apart; "" = one series. */
const LLM_FAMILIES: readonly (readonly [family: string, label: string])[] = [
  ["nv_trt_llm_request_metrics", "request_type"],
  ["nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type"],
  ["nereid_llm_draft_tokens", "kind"],
  ["vllm:prompt_tokens_total", ""],
  ["vllm:generation_tokens_total", ""],
];

export function liveLoad(
  statistics: readonly ModelStatistics[],
  host: Pick<ConsoleHost, "versions" | "samples">,
): ConsoleLive {
  const { user, system } = process.cpuUsage();
  const versions = new Map(host.versions().map((each) => [keyOf(each.name, each.version), each]));
  const families = llmFamilies(host.samples);
  const maps = blockMaps(host.samples);
  return {
    atMs: Date.now(),
    process: { cpuSeconds: (user + system) / US_PER_S, rssBytes: process.memoryUsage.rss() },
    models: statistics.map((each) => modelLoad(each, versions.get(keyOf(each.name, each.version)), families, maps)),
  };
}

function modelLoad(
  statistics: ModelStatistics,
  version: HostedVersion | undefined,
  families: Families,
  maps: ReadonlyMap<string, string>,
): ConsoleModelLoad {
  const { name, inference_stats, batch_stats } = statistics;
  const { success, fail, queue, compute_input, compute_infer, compute_output } = inference_stats;
  const latency = version?.latency();
  const key = keyOf(name, statistics.version);
  const llm = llmLoad(families.get(key), maps.get(key));
  return {
    name,
    version: statistics.version,
    pending: version?.pending ?? 0,
    inFlight: version?.inFlight ?? 0,
    numSuccess: success.count,
    numFailed: fail.count,
    numInferences: statistics.inference_count,
    numExecutions: statistics.execution_count,
    queueNs: queue.ns,
    computeNs: compute_input.ns + compute_infer.ns + compute_output.ns,
    batches: batch_stats.map(({ batch_size, compute_infer: { count } }) => [batch_size, count]),
    ...(latency === undefined ? {} : { latency }),
    ...(llm === undefined ? {} : { llm }),
  };
}

function llmFamilies(samples: Samples): Families {
  const found = new Map<string, Map<string, Map<string, number>>>();
  for (const [family, label] of LLM_FAMILIES) {
    for (const sample of samples(family)) addSample(found, family, label, sample);
  }
  return found;
}

/** Maps of the KV blocks by model and version; those of several engines follow each other. */
function blockMaps(samples: Samples): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const { labels } of samples("nereid_llm_kv_cache_block_map")) {
    const key = keyOf(labels.model ?? "", labels.version ?? "");
    found.set(key, (found.get(key) ?? "") + (labels.map ?? ""));
  }
  return found;
}

function addSample(
  found: Map<string, Map<string, Map<string, number>>>,
  family: string,
  label: string,
  { labels, value }: MetricSample,
): void {
  const key = keyOf(labels.model ?? labels.model_name ?? "", labels.version ?? "");
  const families = found.get(key) ?? new Map<string, Map<string, number>>();
  const values = families.get(family) ?? new Map<string, number>();
  const place = labels[label] ?? "";
  values.set(place, (values.get(place) ?? 0) + value);
  families.set(family, values);
  found.set(key, families);
}

/** Undefined for a model that is no language model of our engine. */
function llmLoad(families: ReadonlyMap<string, Values> | undefined, map: string | undefined): ConsoleLlm | undefined {
  if (families === undefined) return undefined;
  const read = (family: string, place = ""): number => families.get(family)?.get(place) ?? 0;
  const requests = (place: string): number => read("nv_trt_llm_request_metrics", place);
  const blocks = (place: string): number => read("nv_trt_llm_kv_cache_block_metrics", place);
  return {
    active: requests("active"),
    waiting: requests("waiting"),
    maxRequests: requests("max"),
    kvBlocksMax: blocks("max"),
    kvBlocksUsed: blocks("used"),
    kvBlocksFree: blocks("free"),
    kvBlocksReused: blocks("reused"),
    tokensPerBlock: blocks("tokens_per"),
    ...(map === undefined ? {} : { kvBlockMap: map }),
    promptTokens: read("vllm:prompt_tokens_total"),
    generatedTokens: read("vllm:generation_tokens_total"),
    draftTokens: read("nereid_llm_draft_tokens", "drafted"),
    acceptedDraftTokens: read("nereid_llm_draft_tokens", "accepted"),
  };
}

function keyOf(model: string, version: string): string {
  return `${model}/${version}`;
}
