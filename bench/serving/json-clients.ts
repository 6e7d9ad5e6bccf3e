/**
 * Clients that send the same large request in JSON, one after the other, in a process of their own: what reads events must not
 * wait for what sends these. Started by streams.ts.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { startHttpLoad } from "./http-load.ts";
import { jsonRequest } from "./messages.ts";

export interface JsonClients {
  /** Requests answered since the last time. */
  completed(): Promise<number>;
  stop(): void;
}

const PROGRAM = fileURLToPath(import.meta.url);

/** `numValues`: numbers of each request, of about 19 characters. */
export function startJsonClients(port: number, numValues: number, numClients: number): JsonClients {
  const child: ChildProcess = fork(PROGRAM, [String(port), String(numValues), String(numClients)], {
    execArgv: ["--import", "tsx"],
  });
  return {
    completed: async () => {
      child.send("completed");
      const [count] = await once(child, "message");
      return Number(count);
    },
    stop: () => void child.kill("SIGTERM"),
  };
}

function run(port: number, numValues: number, numClients: number): void {
  const values = Float32Array.from({ length: numValues }, (_, i) => Math.round(Math.sin(i) * 2 ** 23) / 2 ** 16);
  const request = jsonRequest("identity_fp32", [{ name: "INPUT0", datatype: "FP32", shape: [numValues], values }]);
  const { tally } = startHttpLoad(port, request, numClients);
  process.on("message", () => {
    tally.expectNoFailure();
    process.send?.(tally.completed);
    tally.reset();
  });
}

if (process.argv[1] === PROGRAM) {
  const [port = 0, numValues = 0, numClients = 0] = process.argv.slice(2).map(Number);
  run(port, numValues, numClients);
}
