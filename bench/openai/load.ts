/** Clients that ask again as soon as they are answered, each on a connection of its own. */
import { Agent, request } from "node:http";

export interface Load {
  readonly path: string;
  readonly body: object;
  readonly isStream: boolean;
  /** Stands once in each event that has a part of the text: the first and the last ones of a stream may have none. */
  readonly eventMark: string;
  readonly clients: number;
}

export interface LoadCount {
  readonly requests: number;
  readonly events: number;
}

/** @throws Error with the body of an answer that is not 200 */
export async function runLoad(port: number, load: Load, forMs: number): Promise<LoadCount> {
  const untilMs = performance.now() + forMs;
  const agent = new Agent({ keepAlive: true, maxSockets: load.clients });
  let requests = 0;
  let events = 0;
  const client = async (): Promise<void> => {
    while (performance.now() < untilMs) {
      events += await ask(port, load, agent);
      requests += 1;
    }
  };
  await Promise.all(Array.from({ length: load.clients }, client));
  agent.destroy();
  return { requests, events };
}

/** Number of events with text in the answer. */
function ask(port: number, { path, body, eventMark }: Load, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request({ host: "127.0.0.1", port, path, method: "POST", agent }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        text += piece;
      });
      response.on("end", () => {
        if (response.statusCode !== 200) reject(new Error(text));
        else resolve(text.split(eventMark).length - 1);
      });
    });
    call.on("error", reject);
    call.end(JSON.stringify(body));
  });
}
