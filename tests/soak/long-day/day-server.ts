/** The one server of a long day: started apart from the part that starts it, and found again by the next. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import type { InsideServer } from "../../inside/inside-server.ts";
import { pythonVenv } from "../../python-venv.ts";
import { childrenOf } from "../../support/child-processes.ts";
import { eventually, residentBytes } from "../../support/probe-server.ts";
import { freePorts, type Ports } from "../../support/server-process.ts";
import { writeModels } from "./models.ts";
import { type DayState, NO_COUNTS, type Sample, startTicks } from "./state.ts";

const MS_PER_HOUR = 3_600_000;
const FLAGS: readonly string[] = [
  "--model-control-mode=explicit",
  "--load-model=*",
  "--allow-client-shm=true",
  "--cache-config=local,size=4194304",
];

/** Its log is `server.log` in the folder. */
export async function startDay(folder: string, inside: InsideServer): Promise<DayState> {
  const python = process.env.NEREID_PYTHON ?? (await pythonOfTests());
  mkdirSync(folder, { recursive: true });
  writeModels(join(folder, "models"));
  const ports = await freePorts();
  const [program = "", ...first] = inside.command;
  const log = openSync(join(folder, "server.log"), "w");
  const child = spawn(
    program,
    [...first, `--model-repository=${join(folder, "models")}`, ...portFlags(ports), ...FLAGS],
    {
      detached: true,
      env: { ...process.env, ...inside.env, NEREID_PYTHON: python },
      stdio: ["ignore", log, log],
    },
  );
  child.unref();
  closeSync(log);
  const pid = child.pid ?? -1;
  await eventually(
    async () => {
      assert.notEqual(startTicks(pid), "", `the server has ended: see ${join(folder, "server.log")}`);
      return fetch(`http://127.0.0.1:${ports.http}/v2/health/ready`).then(
        ({ status }) => status,
        () => 0,
      );
    },
    (status) => status === 200,
  );
  const startedAt = new Date().toISOString();
  return { pid, startTicks: startTicks(pid), startedAt, ports, counts: { ...NO_COUNTS }, samples: [], lost: [] };
}

async function pythonOfTests(): Promise<string> {
  const venv = await pythonVenv(["numpy"]);
  assert.ok(venv.python !== undefined, venv.reason);
  return venv.python;
}

function portFlags({ http, grpc, metrics }: Ports): string[] {
  const named = Object.entries({ http, grpc, metrics });
  return named.flatMap(([name, port]) => [`--${name}-port=${port}`, `--${name}-address=127.0.0.1`]);
}

/** Memory after a collection. Nothing may be under way. */
export async function takeSample({ pid, startedAt, counts }: DayState, inside: InsideServer): Promise<Sample> {
  const memory = await inside.memory();
  const children = await childrenOf(pid, "");
  const bytes = await Promise.all(children.map((child) => residentBytes(child).catch(() => 0)));
  return {
    ...memory,
    hours: (Date.now() - Date.parse(startedAt)) / MS_PER_HOUR,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    children: children.length,
    childrenBytes: bytes.reduce((sum, one) => sum + one, 0),
    answered: counts.answered,
  };
}

/** SIGTERM, and the end within the usual time. */
export async function endDay({ pid }: DayState): Promise<void> {
  process.kill(pid, "SIGTERM");
  await eventually(
    async () => startTicks(pid),
    (ticks) => ticks === "",
  );
}
