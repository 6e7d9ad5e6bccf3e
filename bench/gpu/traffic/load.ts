/** Requests to a server over plain HTTP: rounds of clients that wait for their answers, and streams that arrive by chance. */
import { Agent, type IncomingMessage, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

export interface Asked {
  readonly model: string;
  readonly body: string;
}

const HOST = "127.0.0.1";
const LENGTH = '"sequence_length":';
/** Connections stay open between requests, so that none is measured as it opens. */
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

/**
 * @returns tokens of the answer
 * @throws Error for an answer that is no success
 */
export async function ask(port: number, { model, body }: Asked): Promise<number> {
  const answer = await post(port, `/v2/models/${model}/generate`, body);
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part as Buffer);
  const text = Buffer.concat(parts);
  refuse(answer, text.subarray(0, 400).toString());
  const at = text.lastIndexOf(LENGTH) + LENGTH.length;
  return Number.parseInt(text.subarray(at, at + 12).toString(), 10);
}

function post(port: number, path: string, body: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = { "content-length": Buffer.byteLength(body) };
    const sent = request({ agent, host: HOST, port, path, method: "POST", headers }, resolve);
    sent.on("error", reject);
    sent.end(body);
  });
}

function refuse({ statusCode = 0 }: IncomingMessage, text: string): void {
  if (statusCode !== 200) throw new Error(`HTTP ${statusCode}: ${text.slice(0, 400)}`);
}

/**
 * Each client sends its request `rounds` times, one after the other; `beside` is sent again and again until they are done.
 * @returns tokens a second of the clients, until the last had its last answer
 */
export async function askInRounds(
  port: number,
  clients: readonly Asked[],
  rounds: number,
  beside: Asked,
): Promise<number> {
  let isOver = false;
  let numTokens = 0;
  let seconds = 0;
  const startMs = performance.now();
  const others = clients.map(async (client) => {
    for (let round = 0; round < rounds; round++) {
      const count = await ask(port, client);
      numTokens += count;
    }
    seconds = (performance.now() - startMs) / 1000;
  });
  const ends = Promise.all(others).finally(() => {
    isOver = true;
  });
  const special = async (): Promise<void> => {
    while (!isOver) await ask(port, beside);
  };
  await Promise.all([ends, special()]);
  return numTokens / seconds;
}

export interface Arrivals {
  readonly requestsPerSecond: number;
  readonly seconds: number;
  /** In [0, 1), for the times between arrivals. */
  readonly random: () => number;
}

/** Milliseconds, sorted. */
export interface StreamTimes {
  readonly firstMs: readonly number[];
  readonly betweenMs: readonly number[];
}

/** Streams whose arrivals follow a Poisson process. The first fifth of the time is not counted. */
export async function streamArrivals(
  port: number,
  make: (index: number) => Asked,
  { requestsPerSecond, seconds, random }: Arrivals,
): Promise<StreamTimes> {
  const firstMs: number[] = [];
  const betweenMs: number[] = [];
  const running: Promise<void>[] = [];
  const startMs = performance.now();
  let dueMs = 0;
  for (let index = 0; dueMs < seconds * 1000; index++) {
    const aheadMs = startMs + dueMs - performance.now();
    if (aheadMs > 0) await sleep(aheadMs);
    const isCounted = dueMs > seconds * 200;
    running.push(readStream(port, make(index), isCounted ? { firstMs, betweenMs } : { firstMs: [], betweenMs: [] }));
    dueMs += (-Math.log(1 - random()) * 1000) / requestsPerSecond;
  }
  await Promise.all(running);
  const inOrder = (values: number[]): number[] => values.sort((a, b) => a - b);
  return { firstMs: inOrder(firstMs), betweenMs: inOrder(betweenMs) };
}

async function readStream(
  port: number,
  { model, body }: Asked,
  into: { readonly firstMs: number[]; readonly betweenMs: number[] },
): Promise<void> {
  const sentMs = performance.now();
  const answer = await post(port, `/v2/models/${model}/generate_stream`, body);
  let lastMs = 0;
  for await (const _part of answer) {
    const nowMs = performance.now();
    if (lastMs === 0) into.firstMs.push(nowMs - sentMs);
    else into.betweenMs.push(nowMs - lastMs);
    lastMs = nowMs;
  }
  refuse(answer, "a stream");
}

/** Quantile of sorted values; NaN without values. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
