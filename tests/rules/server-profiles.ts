/** Servers of the rules that need flags or models of their own, and the requests to each in their order. */
import type { HttpRow } from "./http-row.ts";
import { CACHE_OFF_PAGE, CACHE_ROWS, COUNTERS_OFF_PAGE } from "./profile-cache-rows.ts";
import { CONTROL_MODELS, CONTROL_ROWS, DUPLICATE_ROWS } from "./profile-control-rows.ts";
import { PIPELINE_MODELS, PIPELINE_ROWS } from "./profile-pipeline-rows.ts";
import { RESTRICTED_ROWS } from "./profile-restricted-rows.ts";
import { SETTINGS_ROWS } from "./profile-settings-rows.ts";
import { SHM_ROWS } from "./profile-shm-rows.ts";
import { SECOND_MODELS, SECOND_ROWS } from "./second/second-set.ts";

export interface ServerProfile {
  readonly name: string;
  readonly flags: readonly string[];
  /** Texts by path below a repository. */
  readonly repositories: readonly Readonly<Record<string, string>>[];
  readonly rows: readonly HttpRow[];
  /** Lines of the metrics page at the end: those that are there, and beginnings of lines that are not. */
  readonly metrics?: { readonly lines: readonly string[]; readonly without: readonly string[] };
}

const FLOATS = `backend: "identity" input [ { name: "X" data_type: TYPE_FP32 dims: [ -1 ] } ]
  output [ { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] } ] instance_group [ { kind: KIND_CPU } ]`;
const CACHED = `backend: "identity" input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "INPUT1" data_type: TYPE_INT32 dims: [ -1 ] } ]
  output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ -1 ] } ]
  instance_group [ { kind: KIND_CPU } ] response_cache { enable: true }`;
const EXPLICIT = "--model-control-mode=explicit";

export const PROFILES: readonly ServerProfile[] = [
  {
    name: "client shared memory",
    flags: ["--allow-client-shm=true"],
    repositories: [{ "floats/config.pbtxt": FLOATS }],
    rows: SHM_ROWS,
  },
  {
    name: "explicit control",
    flags: [EXPLICIT, "--load-model=kept", "--load-model=three"],
    repositories: [CONTROL_MODELS],
    rows: CONTROL_ROWS,
  },
  {
    name: "equal names in two repositories",
    flags: ["--exit-on-error=false"],
    repositories: [
      { "twin/config.pbtxt": FLOATS, "only_a/config.pbtxt": FLOATS },
      { "twin/config.pbtxt": FLOATS, "only_b/config.pbtxt": FLOATS },
    ],
    rows: DUPLICATE_ROWS,
  },
  {
    name: "restricted routes",
    flags: [
      "--http-restricted-api=inference,model-config:pass=open it",
      "--http-restricted-api=statistics:stat-key=7",
      "--http-restricted-api=health,trace,shared-memory:h=x=y",
    ],
    repositories: [{ "floats/config.pbtxt": FLOATS }],
    rows: RESTRICTED_ROWS,
  },
  {
    name: "settings of traces and logs",
    flags: ["--trace-config=triton,file=nereid-rules-trace.json", "--trace-config=rate=6", "--trace-config=count=9"],
    repositories: [{ "floats/config.pbtxt": FLOATS, "other/config.pbtxt": FLOATS }],
    rows: SETTINGS_ROWS,
  },
  {
    name: "response cache",
    flags: ["--cache-config=local,size=65536", "--metrics-config=summary_latencies=true"],
    repositories: [{ "cached/config.pbtxt": CACHED, "floats/config.pbtxt": FLOATS }],
    rows: CACHE_ROWS,
    metrics: {
      lines: [
        'nv_cache_num_hits_per_model{model="cached",version="1"} 2',
        'nv_cache_num_misses_per_model{model="cached",version="1"} 3',
        'nv_cache_hit_summary_per_model_count{model="cached",version="1"} 2',
        'nv_cache_miss_summary_per_model_count{model="cached",version="1"} 3',
        'nv_inference_request_success{model="cached",version="1"} 5',
        'nv_inference_count{model="cached",version="1"} 3',
        'nv_inference_exec_count{model="cached",version="1"} 3',
        'nv_inference_queue_summary_us_count{model="cached",version="1"} 5',
        'nv_inference_compute_infer_summary_us_count{model="cached",version="1"} 3',
        'nv_inference_request_summary_us_count{model="floats",version="1"} 0',
        "nv_cache_num_entries 3",
        "nv_cache_num_lookups 5",
        "nv_cache_num_hits 2",
        "nv_cache_num_misses 3",
        "nv_cache_num_evictions 0",
        "# HELP nv_cache_lookup_duration Total cache lookup duration (hit and miss), in microseconds",
        "# HELP nv_cache_hit_summary_per_model Summary of cache hit counts/durations per model, in microseconds.",
      ],
      without: [
        'nv_inference_request_summary_us_count{model="cached"',
        'nv_cache_num_hits_per_model{model="floats"',
        "nv_inference_first_response_histogram_ms",
      ],
    },
  },
  {
    name: "no cache for a model that asks for one",
    flags: [],
    repositories: [{ "cached/config.pbtxt": CACHED }],
    rows: CACHE_ROWS.slice(0, 2),
    metrics: CACHE_OFF_PAGE,
  },
  {
    name: "counters off",
    flags: ["--metrics-config=counter_latencies=false"],
    repositories: [{ "cached/config.pbtxt": CACHED }],
    rows: CACHE_ROWS.slice(0, 1),
    metrics: COUNTERS_OFF_PAGE,
  },
  {
    name: "values of each datatype",
    flags: [EXPLICIT, "--load-model=*"],
    repositories: [SECOND_MODELS],
    rows: SECOND_ROWS,
  },
  { name: "pipelines", flags: [], repositories: [PIPELINE_MODELS], rows: PIPELINE_ROWS },
];
