/** Many clients at once with random requests to a language-model pipeline, and the comparison of their books with the server's. */
import assert from "node:assert/strict";
import { childrenOf } from "./child-processes.ts";
import { type DrawnRequest, drawRequest } from "./llm-requests.ts";
import { type Ending, PipelineClient } from "./llm-senders.ts";
import { eventually, residentBytes } from "./probe-server.ts";
import { type Family, parseMetricsPage, sumOf } from "./prometheus-text.ts";
import { createRandom } from "./random.ts";
import type { ServerProcess } from "./server-process.ts";

export interface LoadOptions {
  readonly seed: number;
  readonly requests: number;
  readonly clients: number;
  /** Called after each tenth of the requests. */
  readonly onTenth?: (tenth: number) => Promise<void>;
}

type Model = DrawnRequest["model"];
export type Books = Map<Model, Record<Ending | "sent", number>>;

const MODELS: readonly Model[] = ["ensemble", "tensorrt_llm_bls", "tensorrt_llm", "preprocessing"];
const SEED_STEP = 1_000_003;

/** @throws AssertionError when a request ends in a way that it should not */
export async function runLoad(server: ServerProcess, options: LoadOptions): Promise<Books> {
  const { seed, requests, clients, onTenth } = options;
  const books: Books = new Map(
    MODELS.map((model) => [model, { sent: 0, answered: 0, refused: 0, left: 0, "left midway": 0 }]),
  );
  let next = 0;
  let done = 0;
  const runClient = async (): Promise<void> => {
    using client = new PipelineClient(server);
    while (next < requests) {
      const index = next++;
      const drawn = drawRequest(createRandom(seed * SEED_STEP + index), index);
      const outcome = await client.send(drawn);
      const page = books.get(drawn.model);
      assert.ok(page !== undefined);
      page.sent += 1;
      page[outcome.ending] += 1;
      const where = `${JSON.stringify(drawn, (_, value) => (typeof value === "bigint" ? String(value) : value))}: ${JSON.stringify(outcome)}`;
      assert.equal(outcome.ending === "refused", drawn.isWrong, where);
      assert.ok(drawn.fate === "leave" || outcome.ending !== "left", where);
      assert.ok(drawn.fate !== "read" || !outcome.ending.startsWith("left"), where);
      done += 1;
      if (onTenth !== undefined && (done * 10) % requests < 10) await onTenth(Math.floor((done * 10) / requests));
    }
  };
  await Promise.all(Array.from({ length: clients }, runClient));
  return books;
}

export async function readPage({ metrics }: ServerProcess): Promise<Map<string, Family>> {
  return parseMetricsPage(await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text());
}

/** Waits until nothing is under way, and asserts that nothing is held: no cache block, no request. */
export async function expectIdle(server: ServerProcess): Promise<Map<string, Family>> {
  const isIdle = (page: Map<string, Family>): boolean =>
    sumOf(page, "nv_inference_pending_request_count") === 0 &&
    sumOf(page, "nv_trt_llm_request_metrics", { request_type: "active" }) === 0 &&
    sumOf(page, "nv_trt_llm_kv_cache_block_metrics", { kv_cache_block_type: "used" }) === 0;
  const page = await eventually(() => readPage(server), isIdle);
  const blocks = (type: string): number =>
    sumOf(page, "nv_trt_llm_kv_cache_block_metrics", { kv_cache_block_type: type });
  assert.equal(blocks("free"), blocks("max"));
  assert.equal(sumOf(page, "vllm:num_requests_running"), 0);
  return page;
}

/** Every request is in the server's books once, under its end; those that were left early are there at most once. */
export function expectSameBooks(books: Books, before: Map<string, Family>, after: Map<string, Family>): void {
  const growth = (name: string, labels: Record<string, string>): number =>
    sumOf(after, name, labels) - sumOf(before, name, labels);
  for (const [model, own] of books) {
    const success = growth("nv_inference_request_success", { model });
    const cancelled = growth("nv_inference_request_failure", { model, reason: "CANCELED" });
    const failed = growth("nv_inference_request_failure", { model }) - cancelled;
    if (model === "tensorrt_llm" || model === "preprocessing") continue; // pipelines call these too: see below
    const where = `${model}: ${JSON.stringify({ own, success, cancelled, failed })}`;
    // A failed step counts as one of its ensemble too.
    expectWithin(failed, own.refused, model === "ensemble" ? own.refused : 0, where);
    expectWithin(success + cancelled, own.answered + own["left midway"], own.left, where);
    expectWithin(success, own.answered, own.left + own["left midway"], where);
  }
  const all = { answered: 0, refused: 0, left: 0, midway: 0 };
  for (const [model, own] of books) {
    if (model === "preprocessing") continue;
    all.answered += own.answered;
    all.refused += own.refused;
    all.left += own.left;
    all.midway += own["left midway"];
  }
  const engine = { model: "tensorrt_llm" };
  const success = growth("nv_inference_request_success", engine);
  const cancelled = growth("nv_inference_request_failure", { ...engine, reason: "CANCELED" });
  const failed = growth("nv_inference_request_failure", engine) - cancelled;
  const where = `tensorrt_llm: ${JSON.stringify({ all, success, cancelled, failed })}`;
  assert.equal(failed, all.refused, where);
  assert.ok(success + cancelled >= all.answered + all.midway, where);
}

function expectWithin(value: number, from: number, more: number, where: string): void {
  assert.ok(value >= from && value <= from + more, `${value} is not within ${from} and ${from + more}: ${where}`);
}

/** Resident memory of the server and its engines' processes. */
export async function residentOfAll({ pid }: ServerProcess): Promise<number> {
  const pids = [pid, ...(await childrenOf(pid, "engine-host"))];
  const sizes = await Promise.all(pids.map(residentBytes));
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}
