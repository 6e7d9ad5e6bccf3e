/** FerretDB, a MongoDB-compatible server, as a child process with its data in a folder; NEREID_FERRETDB names its program. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync } from "node:fs";
import { connect } from "node:net";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { freePortRange } from "./server-process.ts";

export interface FerretServer extends AsyncDisposable {
  /** With the database `shop`. */
  readonly url: string;
}

const program = process.env.NEREID_FERRETDB ?? "";
const POLL_MS = 200;

/** Why tests of it are skipped; false where it is there. */
export const noFerret: false | string = existsSync(program) ? false : "NEREID_FERRETDB names no program of FerretDB";

/** Takes connections once this resolves. The caller disposes of it. */
export async function startFerret(state: string): Promise<FerretServer> {
  const port = await freePortRange(1);
  mkdirSync(state);
  const flags = [
    "--handler=sqlite",
    `--sqlite-url=file:${state}/`,
    `--listen-addr=127.0.0.1:${port}`,
    "--debug-addr=-",
    "--telemetry=disable",
    `--state-dir=${state}`,
  ];
  const child = spawn(program, flags, { stdio: "ignore" });
  const exited = once(child, "exit");
  while (!(await takesConnections(port))) {
    assert.equal(child.exitCode, null);
    await sleep(POLL_MS);
  }
  return {
    url: `mongodb://127.0.0.1:${port}/shop`,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

async function takesConnections(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
