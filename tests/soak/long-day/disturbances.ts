/** Disturbs the server of a long day: clients that break off or send nonsense, reloads, models that come and go, killed worker processes. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { utimesSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { fuzzConnections } from "../../fuzz/connections.ts";
import { childrenOf } from "../../support/child-processes.ts";
import { killClients } from "../../support/llm-clients.ts";
import { eventually, SIMPLE_REQUEST } from "../../support/probe-server.ts";
import { mortalRequest, type Peers, REQUESTS, type Worker } from "./requests.ts";
import type { DayState } from "./state.ts";

const CONNECTIONS = 16;
const WORKERS: readonly Worker[] = ["python", "typescript", "engine"];
const COMMANDS = { python: "stub.py", engine: "engine-host" } as const;
const STREAMS_LEFT = 4;
const HALF_SENT = 4;
/** Models that are loaded again while they are asked. */
const RELOADED = ["simple", "echo", "add_sub", "text_statistics", "cached"] as const;

/** Worker processes that are gone now, so that requests may fail for it. */
export type Killed = Set<Worker>;

export async function disturbClients(state: DayState, peers: Peers, seed: number): Promise<void> {
  await fuzzConnections(state.ports, seed, state.counts.hostile, CONNECTIONS, 4);
  await Promise.all(Array.from({ length: HALF_SENT }, () => sendHalf(state.ports.http)));
  await killClients(state.ports, STREAMS_LEFT, peers.random);
  state.counts.hostile += CONNECTIONS + HALF_SENT + STREAMS_LEFT;
}

/** The head and half of a body; then the client is gone. */
async function sendHalf(port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => socket.destroy());
  const head = `POST /v2/models/simple/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ${SIMPLE_REQUEST.length}\r\n\r\n`;
  socket.write(head + SIMPLE_REQUEST.slice(0, SIMPLE_REQUEST.length / 2), () => socket.destroy());
  if (!socket.closed) await once(socket, "close");
}

export async function reload(state: DayState, { http, random }: Peers, modelsFolder: string): Promise<void> {
  const model = random.pick(RELOADED);
  // Another time of change is what makes a load a reload.
  utimesSync(join(modelsFolder, model, "config.pbtxt"), state.counts.reloads, state.counts.reloads);
  const { status, body } = await http.send({ path: `/v2/repository/models/${model}/load` });
  assert.equal(status, 200, body.toString());
  state.counts.reloads += 1;
}

export async function churn(state: DayState, { http }: Peers): Promise<void> {
  for (const action of ["unload", "load"]) {
    const { status, body } = await http.send({ path: `/v2/repository/models/churn/${action}` });
    assert.equal(status, 200, body.toString());
  }
  state.counts.churns += 1;
}

/** Kills one worker and waits until what needs it is answered again. */
export async function kill(state: DayState, peers: Peers, killed: Killed): Promise<void> {
  const worker = peers.random.pick(WORKERS);
  killed.add(worker);
  if (worker === "typescript") await endThread(peers);
  else await killProcess(state.pid, COMMANDS[worker]);
  state.counts.kills += 1;
  const wanting = REQUESTS.filter(({ needs }) => needs.includes(worker));
  for (const { send } of wanting) {
    await eventually(
      () =>
        send(peers).then(
          () => "",
          (error: unknown) => String(error),
        ),
      (failure) => failure === "",
    );
  }
  killed.delete(worker);
}

async function endThread({ http }: Peers): Promise<void> {
  const { status, body } = await http.send(mortalRequest(-1));
  assert.notEqual(status, 200, body.toString());
}

async function killProcess(server: number, command: string): Promise<void> {
  const [pid] = await childrenOf(server, command);
  assert.ok(pid !== undefined, `no process of ${command}`);
  process.kill(pid, "SIGKILL");
}
