/** Connections with broken bytes to a real server (`tests/fuzz/connections.ts`): it goes on, and its memory and descriptors stay. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { fuzzConnections } from "../fuzz/connections.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric, residentBytes } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { slopePer } from "./slope.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const PER_ROUND = 2000;
const WIDTH = 64;
const MAX_GROWTH_BYTES = 128 * 1024 * 1024;
const WARM_UP_SHARE = 0.3;
/** Connections of the soak itself: the metrics page and the probes. */
const MAX_MORE_DESCRIPTORS = 8;

export const connectionsSoak: Soak = { name: "connections", run };

interface Sample {
  readonly connections: number;
  readonly bytes: number;
}

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const server = await startServerProcess({
    repositories: [EXAMPLES],
    flags: ["--model-control-mode=explicit", "--load-model=simple"],
  });
  try {
    const samples: Sample[] = [];
    await assertSound(server);
    const descriptors = countDescriptors(server);
    for (let connections = 0; performance.now() < deadlineMs || samples.length < 4; ) {
      await fuzzConnections(server, seed, connections, PER_ROUND, WIDTH);
      connections += PER_ROUND;
      await assertSound(server);
      samples.push({ connections, bytes: await residentBytes(server.pid) });
    }
    const left = await eventually(
      async () => countDescriptors(server),
      (count) => count <= descriptors + MAX_MORE_DESCRIPTORS,
    );
    const waiting = await readMetric(server, "nv_inference_pending_request_count");
    assert.equal(waiting, 0);
    const result = judge(samples);
    await server.stop();
    return { ...result, descriptorsBefore: descriptors, descriptorsAfter: left };
  } finally {
    await server.kill();
  }
}

function countDescriptors({ pid }: ServerProcess): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

function judge(samples: readonly Sample[]): SoakResult {
  const steady = samples.slice(Math.floor(samples.length * WARM_UP_SHARE));
  const [first, last] = [steady[0]?.bytes ?? 0, steady.at(-1)?.bytes ?? 0];
  const residentGrowthBytes = last - first;
  assert.ok(residentGrowthBytes < MAX_GROWTH_BYTES, `memory grew by ${residentGrowthBytes} bytes`);
  const points = steady.map(({ connections, bytes }): [number, number] => [connections, bytes]);
  const residentBytesPerMillion = slopePer(1e6, points);
  return {
    connections: samples.at(-1)?.connections ?? 0,
    residentBytes: last,
    residentGrowthBytes,
    residentBytesPerMillion,
  };
}
