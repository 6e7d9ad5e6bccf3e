/** Triton's perf_analyzer against the real server: it reads metadata, configuration and statistics, and checks what they add up to. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { EXAMPLES } from "../support/model-repository.ts";
import { perfAnalyzer } from "../support/perf-analyzer.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const tool = await perfAnalyzer();
const COUNT = 100;
/** As few requests as it takes; how steady they are says something about this machine only. */
const BRIEF = `--measurement-mode count_windows --measurement-request-count ${COUNT} -s 1000 -r 10`;
const WAYS: readonly (readonly [name: string, flags: (server: ServerProcess) => string])[] = [
  ["HTTP", ({ http }) => `-i http -u 127.0.0.1:${http}`],
  [
    "HTTP with JSON",
    ({ http }) => `-i http -u 127.0.0.1:${http} --input-tensor-format json --output-tensor-format json`,
  ],
  ["gRPC", ({ grpc }) => `-i grpc -u 127.0.0.1:${grpc} --concurrency-range 4`],
  ["gRPC, compressed", ({ grpc }) => `-i grpc -u 127.0.0.1:${grpc} --grpc-compression-algorithm gzip`],
  ["a gRPC stream", ({ grpc }) => `-i grpc -u 127.0.0.1:${grpc} --streaming -a --concurrency-range 4`],
  ["shared memory over HTTP", ({ http }) => `-i http -u 127.0.0.1:${http} --shared-memory system`],
  ["shared memory over gRPC", ({ grpc }) => `-i grpc -u 127.0.0.1:${grpc} --shared-memory system`],
];

describe("perf_analyzer", { skip: tool.reason ?? false, timeout: 600_000 }, () => {
  let server: ServerProcess;
  before(async () => {
    const flags = ["--model-control-mode=explicit", "--load-model=simple", "--allow-client-shm=true"];
    server = await startServerProcess({ repositories: [EXAMPLES], flags });
  });
  after(() => server.stop());

  for (const [name, flags] of WAYS) {
    it(`measures a model over ${name}, and the server's counts are its own`, async () => {
      const args = `-m simple ${flags(server)} ${BRIEF}`.split(" ");
      const report = (await tool.run?.(args)) ?? "";
      const figure = (label: string): number => Number(new RegExp(`${label}: (\\d+)`).exec(report)?.[1]);
      const sent = figure("Request count");
      assert.ok(sent >= COUNT, report);
      // Requests under way at either end of a window are counted on one side only.
      for (const label of ["Inference count", "Successful request count"]) {
        assert.ok(Math.abs(figure(label) - sent) <= 100, `${label}: ${report}`);
      }
      assert.match(report, /Server: [\s\S]*queue \d+ usec \+ compute input \d+ usec \+ compute infer \d+ usec/);
    });
  }
});
