import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerError } from "../../core/server-error.ts";
import type { KvCacheSpec } from "../../engine/engine-spec.ts";
import { parseKvCache } from "./kv-cache-settings.ts";
import { parseByteCount } from "./parse-byte-count.ts";

interface Parsed {
  readonly spec: KvCacheSpec;
  readonly notes: string[];
  readonly cpuNotes: string[];
}

function parse(parameters: Readonly<Record<string, string>>): Parsed {
  const notes: string[] = [];
  const cpuNotes: string[] = [];
  const text = (key: string): string | undefined => parameters[key];
  const spec = parseKvCache({
    text,
    flag: (key) => (text(key) === undefined ? undefined : text(key) === "true"),
    note: (line) => notes.push(line),
    noteOnCpu: (line) => cpuNotes.push(line),
    error: (key, expected, got) => new ServerError("invalid_argument", `${key} is '${got}', expected ${expected}`),
  });
  return { spec, notes, cpuNotes };
}

const NOTHING: KvCacheSpec = {
  type: undefined,
  isFp8: false,
  bytes: 0,
  freeFraction: undefined,
  hostBytes: 0,
  attentionWindows: [],
};

const GOOD: readonly (readonly [Readonly<Record<string, string>>, Partial<KvCacheSpec>])[] = [
  [{}, {}],
  [{ kv_cache_type: "auto" }, {}],
  [{ kv_cache_type: "f16" }, { type: "f16" }],
  [{ kv_cache_type: "q8_0" }, { type: "q8_0" }],
  [{ kv_cache_memory_bytes: "4GiB" }, { bytes: 2 ** 32 }],
  [{ kv_cache_free_gpu_mem_fraction: "0.9" }, { freeFraction: 0.9 }],
  [{ kv_cache_host_memory_bytes: "1000000000" }, { hostBytes: 1e9 }],
  [{ max_attention_window_size: "4096" }, { attentionWindows: [4096] }],
  [{ max_attention_window_size: "512, 4096,1" }, { attentionWindows: [512, 4096, 1] }],
  [{ sink_token_length: "0", kv_cache_onboard_blocks: "true" }, {}],
];

test("parseKvCache() reads every parameter", () => {
  for (const [parameters, expected] of GOOD) {
    assert.deepEqual(parse(parameters), { spec: { ...NOTHING, ...expected }, notes: [], cpuNotes: [] });
  }
});

test("parseKvCache() says what it does instead of what was asked for", () => {
  for (const name of ["int8", "fp8"]) {
    const { spec, notes, cpuNotes } = parse({ kv_cache_type: name });
    assert.equal(spec.type, "q8_0");
    assert.equal(spec.isFp8, name === "fp8");
    assert.deepEqual(notes, []); // a GPU keeps them as they were asked for
    assert.match(cpuNotes.join(), new RegExp(`^kv_cache_type is '${name}': on a CPU keys and values are kept as q8_0`));
  }
  assert.match(parse({ sink_token_length: "4" }).notes.join(), /^sink_token_length is '4', not supported/);
  assert.match(parse({ kv_cache_onboard_blocks: "false" }).notes.join(), /copied back anyway/);
});

test("parseKvCache() refuses what makes no sense, naming the parameter", () => {
  for (const [key, text] of [
    ["kv_cache_type", "int3"],
    ["kv_cache_memory_bytes", "4 apples"],
    ["kv_cache_memory_bytes", "-1"],
    ["kv_cache_host_memory_bytes", "99999999999999999999"],
    ["kv_cache_free_gpu_mem_fraction", "0"],
    ["kv_cache_free_gpu_mem_fraction", "1.5"],
    ["max_attention_window_size", "0"],
    ["max_attention_window_size", "512,"],
  ] as const) {
    assert.throws(() => parse({ [key]: text }), new RegExp(`^ServerError: ${key} is '${text}', expected`));
  }
});

test("parseByteCount() knows decimal and binary units, and nothing else", () => {
  const counts = ["7", "7 B", "2k", "2KB", "2 KiB", "1.5GiB", "3tb", "0"].map(parseByteCount);
  assert.deepEqual(counts, [7, 7, 2048, 2000, 2048, 1.5 * 2 ** 30, 3e12, 0]);
  for (const text of ["", "GiB", "1e9", "1,5GiB", "4 XB", "-1", "9007199254740993"]) {
    assert.equal(parseByteCount(text), undefined, text);
  }
});
