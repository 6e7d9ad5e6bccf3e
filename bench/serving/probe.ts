/**
 * One client that asks for the server's health up to a hundred times a second, one request at a time: how long does a small
 * request wait behind other work? Part of it may be the work of the client's own process.
 */
import { Agent, get } from "node:http";
import { Tally } from "./load.ts";

const INTERVAL_MS = 10;

export interface Probe {
  readonly tally: Tally;
  stop(): void;
}

export function startProbe(port: number): Probe {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const tally = new Tally();
  let isWaiting = false;
  const timer = setInterval(() => {
    if (isWaiting) return;
    isWaiting = true;
    const startMs = performance.now();
    const request = get({ port, host: "127.0.0.1", path: "/v2/health/live", agent }, (response) => {
      response.resume();
      response.on("end", () => {
        isWaiting = false;
        tally.answered(startMs);
      });
    });
    request.on("error", () => undefined); // the end of the run
  }, INTERVAL_MS);
  const stop = (): void => {
    clearInterval(timer);
    agent.destroy();
  };
  return { tally, stop };
}
