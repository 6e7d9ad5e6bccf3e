/** Broken requests over HTTP and gRPC and killed readers of long streams, all at once against one server. */
import assert from "node:assert/strict";
import { openSession } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { fuzzGrpc } from "../support/fuzz-grpc.ts";
import { fuzz } from "../support/fuzz-http.ts";
import { KeepAliveClient } from "../support/hostile-http.ts";
import { killClients } from "../support/llm-clients.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric, residentBytes } from "../support/probe-server.ts";
import { createRandom, type Random } from "../support/random.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const HTTP_PER_ROUND = 2000;
const GRPC_PER_ROUND = 1000;
const KILLED_PER_ROUND = 20;
const WIDTH = 32;
const MAX_GROWTH_BYTES = 512 * 1024 * 1024;
const FLAGS = ["--model-control-mode=explicit", "--load-model=*"];

export const fuzzSoak: Soak = { name: "fuzz", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const server = await startServerProcess({ repositories: [EXAMPLES], flags: FLAGS });
  try {
    const random = createRandom(seed);
    await oneRound(server, random);
    const bytesBefore = await residentBytes(server.pid);
    let rounds = 1;
    for (; performance.now() < deadlineMs; rounds += 1) await oneRound(server, random);
    const residentGrowthBytes = (await residentBytes(server.pid)) - bytesBefore;
    assert.ok(residentGrowthBytes < MAX_GROWTH_BYTES, `memory grew by ${residentGrowthBytes} bytes`);
    await server.stop();
    const [httpRequests, grpcCalls, killedStreams] = [HTTP_PER_ROUND, GRPC_PER_ROUND, KILLED_PER_ROUND].map(
      (count) => count * rounds,
    );
    return {
      httpRequests: httpRequests ?? 0,
      grpcCalls: grpcCalls ?? 0,
      killedStreams: killedStreams ?? 0,
      residentGrowthBytes,
    };
  } finally {
    await server.kill();
  }
}

async function oneRound(server: ServerProcess, random: Random): Promise<void> {
  using client = new KeepAliveClient(server.http, WIDTH);
  const session = openSession(server.grpc);
  await Promise.all([
    fuzz(client, createRandom(random.below(2 ** 32)), HTTP_PER_ROUND, WIDTH),
    fuzzGrpc(session, createRandom(random.below(2 ** 32)), GRPC_PER_ROUND, WIDTH),
    killClients(server, KILLED_PER_ROUND, createRandom(random.below(2 ** 32))),
  ]);
  session.destroy();
  for (const [family, ...labels] of [
    ["nv_inference_pending_request_count"],
    ["nv_trt_llm_request_metrics", '"active"'],
  ]) {
    await eventually(
      () => readMetric(server, family ?? "", ...labels),
      (value) => value === 0,
    );
  }
  await assertSound(server);
}
