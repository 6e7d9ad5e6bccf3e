/** `nereid bench` on language models, as users call it, against the built server. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const NEREID = join(ROOT, "server/bin/nereid.cjs");
const folder = mkdtempSync(join(tmpdir(), "nereid-text-bench-"));
let server: ServerProcess;

before(async () => {
  server = await startServerProcess({ repositories: [join(ROOT, "bench/openai/model_repository")] });
});

after(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Result {
  readonly request_count: number;
  readonly failed_request_count: number;
  readonly output_sequence_length: { readonly avg: number };
  readonly time_to_first_token_ms: { readonly avg: number };
  readonly goodput_per_second?: number;
}

async function bench(...flags: string[]): Promise<readonly Result[]> {
  const path = join(folder, "report.json");
  const own = ["-u", `127.0.0.1:${server.http}`, "--report-json", path, "--isl", "8", "--warmup-request-count", "1"];
  await promisify(execFile)(process.execPath, [NEREID, "bench", ...own, ...flags], { timeout: 240_000 });
  return (JSON.parse(readFileSync(path, "utf8")) as { readonly results: readonly Result[] }).results;
}

for (const endpoint of [
  ["--endpoint-type", "generate_stream"],
  ["--endpoint-type", "chat", "--streaming"],
] as const) {
  test(`nereid bench ${endpoint.join(" ")} counts each token of a stream`, async () => {
    const flags = ["-m", "many_words", "--concurrency-range", "1:3:2", "--request-count", "6"];
    const results = await bench(...endpoint, ...flags, "--goodput", "request_latency:100000");
    assert.equal(results.length, 2);
    for (const result of results) {
      assert.deepEqual([result.request_count, result.failed_request_count], [6, 0]);
      assert.equal(result.output_sequence_length.avg, 200);
      assert.ok(result.time_to_first_token_ms.avg > 0);
      assert.ok((result.goodput_per_second ?? 0) > 0);
    }
  });
}

test("nereid bench sends each request of a trace once, by its schedule", async () => {
  const trace = join(folder, "trace.jsonl");
  const line = (k: number): string => JSON.stringify({ timestamp: 20 * k, input_length: 5, output_length: 1 });
  writeFileSync(trace, Array.from({ length: 9 }, (_, k) => line(k)).join("\n"));
  const [result] = await bench(
    "-m",
    "words",
    "--endpoint-type",
    "generate",
    "--trace-input",
    trace,
    "--fixed-schedule",
  );
  assert.deepEqual([result?.request_count, result?.failed_request_count], [9, 0]);
});

test("nereid bench tells why every request failed", async () => {
  await assert.rejects(bench("-m", "nope", "--endpoint-type", "chat"), /every request failed: HTTP 404/);
});
