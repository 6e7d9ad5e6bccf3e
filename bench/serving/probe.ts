/** One client that asks for the server's health a hundred times a second: how long does a small request wait behind other work? */
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
  const timer = setInterval(() => {
    const startMs = performance.now();
    const request = get({ port, host: "127.0.0.1", path: "/v2/health/live", agent }, (response) => {
      response.resume();
      response.on("end", () => tally.answered(startMs));
    });
    request.on("error", () => undefined); // the end of the run
  }, INTERVAL_MS);
  const stop = (): void => {
    clearInterval(timer);
    agent.destroy();
  };
  return { tally, stop };
}
