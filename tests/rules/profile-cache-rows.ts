/** Rules of the response cache (core, cache_manager.cc `Hash()`): names and bytes of inputs are the key, and nothing else. */
import type { HttpRow } from "./http-row.ts";

const TO = "POST /v2/models/cached/infer";

function infer(rule: string, a: readonly number[], says: string, more: object = {}, shape = [a.length]): HttpRow {
  const tensor = (name: string, data: readonly number[]) => ({ name, datatype: "INT32", shape, data });
  return {
    rule,
    to: TO,
    body: { inputs: [tensor("INPUT0", a), tensor("INPUT1", [8, 9])], ...more },
    status: 200,
    says,
  };
}

function answer(a: string, names: readonly string[] = ["OUTPUT0", "OUTPUT1"]): string {
  const data: Readonly<Record<string, string>> = { OUTPUT0: a, OUTPUT1: "8,9" };
  const outputs = names.map((name) => `{"name":"${name}","datatype":"INT32","shape":[2],"data":[${data[name]}]}`);
  return `{"model_name":"cached","model_version":"1","outputs":[${outputs.join(",")}]}`;
}

export const CACHE_ROWS: readonly HttpRow[] = [
  infer("a miss", [1, 2], answer("1,2")),
  infer("a hit", [1, 2], answer("1,2"), { parameters: { mode: "another" } }),
  infer("a miss for one output", [3, 4], answer("3,4", ["OUTPUT1"]), { outputs: [{ name: "OUTPUT1" }] }),
  infer("a miss for other bytes", [4, 3], answer("4,3")),
  infer("a hit of the same bytes with another id", [4, 3], answer("4,3").replace("{", '{"id":"i",'), { id: "i" }),
];

export const CACHE_OFF_PAGE = {
  lines: [
    'nv_cache_num_hits_per_model{model="cached",version="1"} 0',
    'nv_cache_num_misses_per_model{model="cached",version="1"} 0',
    'nv_cache_hit_duration_per_model{model="cached",version="1"} 0',
    'nv_cache_miss_duration_per_model{model="cached",version="1"} 0',
    'nv_inference_count{model="cached",version="1"} 2',
  ],
  without: ["nv_cache_num_entries", "nv_cache_util", "nv_cache_num_lookups", "nv_cache_hit_summary_per_model"],
} as const;

export const COUNTERS_OFF_PAGE = {
  lines: [
    'nv_inference_request_success{model="cached",version="1"} 0',
    'nv_inference_request_failure{model="cached",reason="OTHER",version="1"} 0',
    'nv_inference_count{model="cached",version="1"} 0',
    'nv_inference_exec_count{model="cached",version="1"} 0',
    'nv_inference_pending_request_count{model="cached",version="1"} 0',
  ],
  without: [
    "nv_inference_request_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_cache_num_hits_per_model",
  ],
} as const;
