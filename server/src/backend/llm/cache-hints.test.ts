/** Priority, salts and retention of a request, from its tensors to the engine and back in its statistics. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tensor } from "../../core/tensor.ts";
import type { ModelInstance } from "../backend.ts";
import { bool, call, fp32, int32, notDecoupled, prompt, serve, text, values } from "./llm.test-support.ts";
import { type PriorityLevels, priorityOf, readCacheHints } from "./read-cache-hints.ts";
import { RowInputs } from "./row-inputs.ts";

const NO_LEVELS: PriorityLevels = { numLevels: 0, defaultLevel: 0 };

test("priorityOf() puts level 1 first, spreads the levels of the configuration and takes its default for the rest", () => {
  const without = [0, 1, 2, 3, 100].map((level) => priorityOf(level, NO_LEVELS));
  assert.deepEqual(without, [0.5, 1, 0.5, 1 / 3, 0.01]);
  const three = [0, 1, 2, 3, 4].map((level) => priorityOf(level, { numLevels: 3, defaultLevel: 2 }));
  assert.deepEqual(three, [0.5, 1, 0.5, 0, 0.5]);
  assert.equal(priorityOf(1, { numLevels: 1, defaultLevel: 1 }), 0.5);
});

function uint64(name: string, ...ids: bigint[]): Tensor {
  return { name, datatype: "UINT64", shape: [1, ids.length], data: new Uint8Array(BigUint64Array.from(ids).buffer) };
}

function ranges(starts: number[], ends: number[], priorities: number[], durationsMs: number[]): Tensor[] {
  const lists = { starts, ends, priorities, durations_ms: durationsMs };
  return Object.entries(lists).map(([name, list]) => int32(`retention_token_range_${name}`, [1, list.length], ...list));
}

test("readCacheHints() reads each row's own retention and salts", () => {
  const forever = Number.POSITIVE_INFINITY;
  const read = (...inputs: Tensor[]): unknown => readCacheHints(new RowInputs(inputs, 0, 1), 0, NO_LEVELS);
  const nothing = { priority: 0.5, cacheSalt: "", retention: undefined, tokenSalts: undefined };
  assert.deepEqual(read(), nothing);
  assert.deepEqual(
    read(...ranges([0, 32], [32, -1], [90, 10], [500, -1]), int32("retention_decode_priority", [1], 5)),
    {
      ...nothing,
      retention: {
        ranges: [
          { start: 0, end: 32, priority: 90, durationMs: 500 },
          { start: 32, end: forever, priority: 10, durationMs: forever },
        ],
        decode: { priority: 5, durationMs: forever },
      },
    },
  );
  assert.deepEqual(read(int32("retention_decode_duration_ms", [1], 70)), {
    ...nothing,
    retention: { ranges: [], decode: { priority: 35, durationMs: 70 } },
  });
  assert.deepEqual(read(uint64("prompt_table_extra_ids", 1n, 2n ** 64n - 1n), text("cache_salt", "mine")), {
    ...nothing,
    cacheSalt: "mine",
    tokenSalts: BigUint64Array.of(1n, 2n ** 64n - 1n),
  });
});

function withReuse(config: string): string {
  return `${notDecoupled(config)}\noutput [ { name: "kv_cache_reused_blocks" data_type: TYPE_INT32 dims: [ 1 ] } ]\n`;
}

/** Blocks that the request found in the cache. */
async function reused(instance: ModelInstance, ids: readonly number[], ...more: Tensor[]): Promise<number> {
  const inputs = prompt(ids, 2, bool("return_kv_cache_reuse_stats", [1], true), ...more);
  const { responses, ended } = call(instance, inputs, { outputNames: ["kv_cache_reused_blocks"] });
  const error = await ended;
  if (error !== undefined) throw error;
  return values(responses[0], "kv_cache_reused_blocks").values[0] ?? -1;
}

/** Nine tokens in blocks of four. */
const PROMPT = [1, 2, 3, 4, 5, 6, 7, 8, 9];

test("execute() shares cache blocks between requests of one salt and one image only", async (t) => {
  const { instance } = await serve(t, withReuse);
  assert.deepEqual([await reused(instance, PROMPT), await reused(instance, PROMPT)], [0, 2]);
  const salt = text("cache_salt", "tenant");
  assert.deepEqual([await reused(instance, PROMPT, salt), await reused(instance, PROMPT, salt)], [0, 2]);
  const ids = (last: bigint): Tensor => uint64("prompt_table_extra_ids", 0n, 0n, 0n, 0n, 0n, 0n, 0n, last, 0n);
  const tokens = [11, ...PROMPT.slice(1)];
  const found: number[] = [];
  for (const last of [7n, 7n, 8n, 7n + (1n << 40n)]) found.push(await reused(instance, tokens, ids(last)));
  assert.deepEqual(found, [0, 2, 1, 1]); // what comes before the other number is shared
  const image = (value: number, ...more: Tensor[]): Promise<number> => {
    const table = { ...fp32("prompt_embedding_table", [1, 1, 4], value, 0, 0, 0) };
    return reused(instance, [21, 2, 3, 4, 64, 6, 7, 8, 9], table, int32("prompt_vocab_size", [1], 1), ...more);
  };
  const same = ids(5n);
  assert.deepEqual([await image(0.5), await image(0.5), await image(0.25)], [0, 2, 1]);
  // A number that is wrong does not mix them either.
  assert.deepEqual([await image(0.5, same), await image(0.75, same), await image(0.5, same)], [1, 1, 2]);
});

test("execute() keeps what a request says is worth keeping when the cache runs full", async (t) => {
  const { instance } = await serve(t, withReuse); // 128 blocks
  const kept = PROMPT.map((id) => id + 10);
  const flood = async (first: number): Promise<void> => {
    for (let i = 0; i < 60; i++) {
      await reused(
        instance,
        Array.from({ length: 13 }, (_, j) => (j === 0 ? i : j === 1 ? first : j)),
      );
    }
  };
  await reused(instance, kept, ...ranges([0], [-1], [80], [-1]));
  await reused(instance, PROMPT);
  await flood(1);
  assert.deepEqual([await reused(instance, kept), await reused(instance, PROMPT)], [2, 0]);
  // Back to the usual worth at once: a duration of nothing.
  await reused(instance, kept, ...ranges([0], [-1], [80], [0]));
  await flood(2);
  assert.equal(await reused(instance, kept), 0);
});

test("execute() serves waiting requests by priority, and refuses more than may wait", async (t) => {
  const queue = "dynamic_batching { default_queue_policy { max_queue_size: 5 } }";
  const oneByOne = 'parameters { key: "max_num_sequences" value: { string_value: "1" } }';
  const { instance } = await serve(t, (config) => `${notDecoupled(config)}\n${queue}\n${oneByOne}\n`);
  const ended: number[] = [];
  const ask = (id: number, priority: number): Promise<unknown> => {
    const one = call(instance, prompt([id], 20), { priority });
    return one.ended.then((error) => (error === undefined ? ended.push(id) : assert.fail(error)));
  };
  // They reach the engine together, before its next step.
  await Promise.all([ask(1, 0), ask(2, 9), ask(3, 0), ask(4, 1), ask(5, 1)]);
  assert.deepEqual(ended, [4, 5, 1, 3, 2]);
  const many = Array.from({ length: 12 }, (_, i) => call(instance, prompt([i], 20)).ended);
  const refused = (await Promise.all(many)).filter((error) => error !== undefined);
  assert.ok(refused.length > 0 && refused.length < 8);
  assert.match(refused[0]?.message ?? "", /^Maximum queue size of 5 has been reached, please try again later$/);
  assert.equal(refused[0]?.code, "unavailable");
});

test("execute() refuses hints that make no sense, naming them", async (t) => {
  const { instance } = await serve(t, withReuse);
  const cases: readonly (readonly [Tensor[], RegExp])[] = [
    [
      ranges([0], [8, 9], [1], [-1]),
      /'retention_token_range_starts', .* have 1, 2, 1, 1 values, expected as many each/,
    ],
    [ranges([0], [8], [101], [-1]), /a retention priority is 101, expected 0 to 100/],
    [ranges([0], [8], [50], [-2]), /a retention duration is -2 ms/],
    [ranges([8], [8], [50], [-1]), /a retention range is 8 to 8, expected an end after its start/],
    [ranges([4, 0], [8, 5], [50, 60], [-1, -1]), /retention ranges 0 to 5 and 4 to 8 overlap/],
    [[int32("retention_decode_priority", [1], -1)], /a retention priority is -1/],
    [[uint64("prompt_table_extra_ids", 1n)], /prompt_table_extra_ids has 1 numbers for 9 prompt tokens/],
    [[text("cache_salt", "x".repeat(1025))], /the cache salt has 1025 characters, expected at most 1024/],
  ];
  for (const [inputs, expected] of cases) await assert.rejects(reused(instance, PROMPT, ...inputs), expected);
});
