/** NVIDIA's genai-perf against a language-model pipeline: what it measures must be what was asked, and what the server counted. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { genaiPerf } from "../support/genai-perf.ts";
import { createPipeline, LANGUAGE_MODEL } from "../support/llm-pipeline.ts";
import type { ModelRepository } from "../support/model-repository.ts";
import { readMetric } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const tool = await genaiPerf();
const NUM_TOKENS = 16;
const ASKED = [
  ...["-m", "ensemble", "--service-kind", "triton", "--backend", "tensorrtllm", "--streaming", "--concurrency", "4"],
  ...["--num-prompts", "10", "--synthetic-input-tokens-mean", "20", "--synthetic-input-tokens-stddev", "0"],
  ...["--output-tokens-mean", String(NUM_TOKENS), "--measurement-interval", "2000", "--tokenizer", LANGUAGE_MODEL],
];

describe("genai-perf", { skip: tool.reason ?? false, timeout: 600_000 }, () => {
  let repository: ModelRepository;
  let server: ServerProcess;
  const folder = mkdtempSync(join(tmpdir(), "nereid-genai-"));
  before(async () => {
    repository = await createPipeline();
    server = await startServerProcess({ repositories: [repository.path] });
  });
  after(async () => {
    await server.stop();
    await repository[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  it("measures the streamed answers of a pipeline", async () => {
    const report = await tool.profile?.([...ASKED, "-u", `127.0.0.1:${server.grpc}`], folder);
    const figure = (name: string, kind: string): number => Number(report?.[name]?.[kind]);
    // It counts by the tokenizer, which may join two tokens of the answer.
    assert.ok(Math.abs(figure("output_sequence_length", "avg") - NUM_TOKENS) < 2, JSON.stringify(report));
    assert.ok(figure("time_to_first_token", "p50") < figure("request_latency", "p50"));
    assert.ok(figure("request_throughput", "avg") > 0);
    assert.ok((await readMetric(server, "nv_inference_request_success", '"ensemble"')) >= 4);
    assert.equal(await readMetric(server, "nv_inference_request_failure", '"ensemble"', "BACKEND"), 0);
  });
});
