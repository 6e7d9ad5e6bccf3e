/**
 * CPU time of a request of `simple` with one process, with copies behind a supervisor, and what a channel to one owner would add:
 * `npm run build && node --import tsx bench/workers/main.ts [--seconds=5] [--base-port=18300]`. Results: ../results/workers.md.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Load } from "../serving/load.ts";
import { cpuTimeUs, ownCpuTimeUs } from "../serving/process-cpu.ts";
import { ROWS } from "../serving/rows.ts";
import { startNereid } from "../serving/servers.ts";

const { values: flags } = parseArgs({
  options: { seconds: { type: "string", default: "5" }, "base-port": { type: "string", default: "18300" } },
});
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const REPOSITORY = fileURLToPath(new URL("../../examples/model_repository", import.meta.url));
const SIMPLE = ["--model-control-mode=explicit", "--load-model=simple"];
const durationMs = 1000 * Number(flags.seconds);

/** Compiled code is reached by count, not by time: on a busy machine two seconds hold a few hundred requests. */
const WARM_UP_REQUESTS = 30_000;
/** Each process compiles for itself, so that the first requests are the ones that several processes make dearer. */
const FIRST_REQUESTS = 1000;

for (const [index, more] of [[], ["--workers=1"], ["--workers=2"]].entries()) {
  const name = more.join("") || "one process";
  const port = Number(flags["base-port"]) + 10 * index;
  const server = await startNereid(ROOT, [REPOSITORY], port, [], [...SIMPLE, ...more]);
  try {
    await sleep(3000); // the last worker may still start
    for (const row of ROWS.filter((each) => /simple/.test(each.name) && each.clients === 16)) {
      const load = row.start(row.protocol === "http" ? server.httpPort : server.grpcPort);
      const first = await measure(server.pid, load, () => load.tally.completed >= FIRST_REQUESTS);
      await until(() => load.tally.completed >= WARM_UP_REQUESTS);
      const endMs = performance.now() + durationMs;
      const later = await measure(server.pid, load, () => performance.now() >= endMs);
      load.stop();
      load.tally.expectNoFailure();
      const us = `first ${FIRST_REQUESTS}: ${first.us} us CPU, later ${later.us} us, first process ${later.ownUs} us`;
      console.log(`${name} | ${row.name} | ${later.rate}/s | ${us} | load average ${loadavg()[0]?.toFixed(1)}`);
    }
  } finally {
    await server.stop();
  }
}
await measureChannel();

async function until(isDone: () => boolean): Promise<void> {
  while (!isDone()) await sleep(10);
}

/** From now on, CPU times of all processes and of the first one, a request. */
async function measure(
  pid: number,
  { tally }: Load,
  isDone: () => boolean,
): Promise<{ readonly us: string; readonly ownUs: string; readonly rate: number }> {
  const [all, own, completed, startMs] = [cpuTimeUs(pid), ownCpuTimeUs(pid), tally.completed, performance.now()];
  await until(isDone);
  const count = tally.completed - completed;
  return {
    us: ((cpuTimeUs(pid) - all) / count).toFixed(1),
    ownUs: ((ownCpuTimeUs(pid) - own) / count).toFixed(1),
    rate: Math.round((1000 * count) / (performance.now() - startMs)),
  };
}

async function measureChannel(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "nereid-channel-"));
  const program = fileURLToPath(new URL("channel.ts", import.meta.url));
  const start = (role: string) =>
    spawn(process.execPath, ["--import", "tsx", program, role, join(folder, "s")], {
      stdio: ["ignore", "pipe", "inherit"],
    });
  const owner = start("owner");
  await once(owner.stdout, "data");
  const front = start("front");
  let count = 0;
  front.stdout.on("data", (text: Buffer) => (count = Number(text.toString().trim().split("\n").at(-1))));
  await sleep(3000);
  const before = { count, owner: ownCpuTimeUs(owner.pid ?? 0), front: ownCpuTimeUs(front.pid ?? 0) };
  await sleep(durationMs);
  const done = count - before.count;
  const us = (pid: number | undefined, from: number): string => ((ownCpuTimeUs(pid ?? 0) - from) / done).toFixed(1);
  console.log(
    `channel | owner ${us(owner.pid, before.owner)} us CPU, front ${us(front.pid, before.front)} us CPU a request`,
  );
  for (const child of [front, owner]) child.kill();
  rmSync(folder, { recursive: true });
}
