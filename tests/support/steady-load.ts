/** Load at a steady rate, with streams beside it, and the count of what did not come back whole. */
import { setTimeout as sleep } from "node:timers/promises";
import { SHAPE_MODELS } from "./grpc-shapes.ts";
import { KeepAliveClient, type Outgoing, type Reply } from "./hostile-http.ts";
import { createModelRepository, type ModelRepository } from "./model-repository.ts";

export interface LoadTally {
  answered: number;
  streams: number;
  /** One line for each request or stream that failed. */
  readonly lost: string[];
}

export interface SteadyLoad {
  readonly tally: LoadTally;
  /** No more requests; resolves when the last answer has come. */
  stop(): Promise<void>;
}

const NUM_CONNECTIONS = 32;
const TICK_MS = 20;
const NUM_PARTS = 20;
const PART_DELAY_MS = 50;
const ECHO: Outgoing = {
  path: "/v2/models/echo/infer",
  body: JSON.stringify({ inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1], data: [7] }] }),
};
const STREAM: Outgoing = {
  path: "/v2/models/repeat/generate_stream",
  body: JSON.stringify({
    IN: Array.from({ length: NUM_PARTS }, (_, i) => i),
    DELAY: Array.from({ length: NUM_PARTS }, () => PART_DELAY_MS),
    WAIT: [0],
  }),
};

/** The models that the load asks: `echo`, and `repeat`, which streams. */
export function loadRepository(): Promise<ModelRepository> {
  const names = ["echo/config.pbtxt", "repeat/config.pbtxt"];
  return createModelRepository({ files: Object.fromEntries(names.map((name) => [name, SHAPE_MODELS[name] ?? ""])) });
}

export function startSteadyLoad(port: number, requestsPerSecond: number, numStreams: number): SteadyLoad {
  const tally: LoadTally = { answered: 0, streams: 0, lost: [] };
  const client = new KeepAliveClient(port, NUM_CONNECTIONS + numStreams);
  const open = new Set<Promise<void>>();
  let isStopped = false;
  const send = (outgoing: Outgoing, isWhole: (reply: Reply) => boolean, count: () => void): Promise<void> => {
    const done = client.send(outgoing).then(
      (reply) => {
        if (isWhole(reply)) count();
        else tally.lost.push(`${outgoing.path}: ${reply.status} ${reply.body.toString("utf8", 0, 200)}`);
      },
      (error: unknown) => void tally.lost.push(`${outgoing.path}: ${String(error)}`),
    );
    open.add(done);
    return done.finally(() => open.delete(done));
  };
  const startMs = performance.now();
  let numSent = 0;
  const timer = setInterval(() => {
    // By the clock, so that a late timer loses no request.
    const wanted = Math.floor(((performance.now() - startMs) / 1000) * requestsPerSecond);
    for (; numSent < wanted; numSent += 1) void send(ECHO, isEcho, () => (tally.answered += 1));
  }, TICK_MS);
  const stream = async (index: number): Promise<void> => {
    await sleep((index / numStreams) * NUM_PARTS * PART_DELAY_MS);
    while (!isStopped) await send(STREAM, isWholeStream, () => (tally.streams += 1));
  };
  const streams = Array.from({ length: numStreams }, (_, i) => stream(i));
  return {
    tally,
    async stop() {
      clearInterval(timer);
      isStopped = true;
      await Promise.all([...streams, ...open]);
      client[Symbol.dispose]();
    },
  };
}

function isEcho({ status, body }: Reply): boolean {
  return status === 200 && body.includes('"data":[7]');
}

function isWholeStream({ status, body }: Reply): boolean {
  return status === 200 && body.toString().match(/^data: .*"OUT":/gm)?.length === NUM_PARTS;
}
