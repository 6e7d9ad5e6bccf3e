/** Reloads a model in every way there is while clients ask it, and counts what that costs them. */
import assert from "node:assert/strict";
import { readFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { KeepAliveClient } from "./hostile-http.ts";
import { createModelRepository, EXAMPLES } from "./model-repository.ts";
import { SIMPLE_REQUEST } from "./probe-server.ts";
import type { Random } from "./random.ts";
import { startServerProcess } from "./server-process.ts";

const NUM_CONNECTIONS = 64;
const MS_PER_S = 1000;
/** One of so many requests goes to the model that nobody reloads. */
const STEADY_EVERY = 4;

const STEADY = `backend: "identity"
max_batch_size: 4
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]`;
const STEADY_REQUEST = JSON.stringify({
  inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1, 2], data: [3, 4] }],
});

export interface ReloadLoadOptions {
  readonly random: Random;
  readonly requestsPerSecond: number;
  /** Between the answer to one load request and the next. */
  readonly pauseMs: number;
  /** Asked before every reload with the number of those before. */
  readonly goesOn: (reloads: number) => boolean;
}

export interface ReloadLoadResult {
  readonly reloads: number;
  /** Loads of a broken model: refused, and the old version went on serving. */
  readonly refusedLoads: number;
  readonly requests: number;
  /** Requests without the right answer, in words. */
  readonly failures: readonly string[];
  /** Requests that the neighbouring model has answered, by its own statistics, and those sent to it. */
  readonly steadyAnswered: number;
  readonly steadySent: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export async function reloadUnderLoad(options: ReloadLoadOptions): Promise<ReloadLoadResult> {
  const copies = [join(EXAMPLES, "simple")];
  await using repository = await createModelRepository({ copies, files: { "steady/config.pbtxt": STEADY } });
  const flags = ["--model-control-mode=explicit", "--load-model=*"];
  const server = await startServerProcess({ repositories: [repository.path], flags });
  try {
    using client = new KeepAliveClient(server.http, NUM_CONNECTIONS);
    const load = new Load(client, options.requestsPerSecond);
    const sending = load.run();
    const reloads = await new Reloader(client, join(repository.path, "simple"), options).run();
    load.stop();
    await sending;
    const steadyAnswered = await answeredBy(client, "steady");
    await server.stop();
    return { ...reloads, ...load.result(), steadyAnswered };
  } finally {
    await server.kill();
  }
}

/** Requests at a steady rate, whether earlier ones are answered or not. */
class Load {
  readonly #client: KeepAliveClient;
  readonly #periodMs: number;
  readonly #failures: string[] = [];
  readonly #latenciesMs: number[] = [];
  #sent = 0;
  #steadySent = 0;
  #expected = "";
  #isOver = false;

  constructor(client: KeepAliveClient, requestsPerSecond: number) {
    this.#client = client;
    this.#periodMs = MS_PER_S / requestsPerSecond;
  }

  async run(): Promise<void> {
    const first = await this.#client.send({ path: "/v2/models/simple/infer", body: SIMPLE_REQUEST });
    this.#expected = first.body.toString();
    const startMs = performance.now();
    const pending = new Set<Promise<void>>();
    for (; !this.#isOver; this.#sent += 1) {
      const waitMs = startMs + this.#sent * this.#periodMs - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      const one = this.#sendOne(this.#sent).finally(() => pending.delete(one));
      pending.add(one);
    }
    await Promise.all(pending);
  }

  stop(): void {
    this.#isOver = true;
  }

  result(): Pick<ReloadLoadResult, "requests" | "failures" | "steadySent" | "p50Ms" | "p99Ms" | "maxMs"> {
    const sorted = this.#latenciesMs.sort((a, b) => a - b);
    const quantile = (q: number): number => Math.round((sorted[Math.floor(q * (sorted.length - 1))] ?? 0) * 10) / 10;
    return {
      requests: this.#sent,
      failures: this.#failures,
      steadySent: this.#steadySent,
      p50Ms: quantile(0.5),
      p99Ms: quantile(0.99),
      maxMs: quantile(1),
    };
  }

  async #sendOne(number: number): Promise<void> {
    const isSteady = number % STEADY_EVERY === 0;
    if (isSteady) this.#steadySent += 1;
    const startMs = performance.now();
    try {
      const { status, body } = isSteady
        ? await this.#client.send({ path: "/v2/models/steady/infer", body: STEADY_REQUEST })
        : await this.#client.send({ path: "/v2/models/simple/infer", body: SIMPLE_REQUEST });
      const text = body.toString();
      const isRight = status === 200 && (isSteady ? text.includes('"data":[3,4]') : text === this.#expected);
      if (!isRight) this.#failures.push(`${status} ${text}`);
    } catch (error) {
      this.#failures.push(String(error));
    }
    this.#latenciesMs.push(performance.now() - startMs);
  }
}

/** Changes of a model's folder between two loads. */
class Reloader {
  readonly #client: KeepAliveClient;
  readonly #folder: string;
  readonly #options: ReloadLoadOptions;
  #refused = 0;

  constructor(client: KeepAliveClient, folder: string, options: ReloadLoadOptions) {
    this.#client = client;
    this.#folder = folder;
    this.#options = options;
  }

  async run(): Promise<Pick<ReloadLoadResult, "reloads" | "refusedLoads">> {
    const { random, pauseMs, goesOn } = this.#options;
    const config = await readFile(join(this.#folder, "config.pbtxt"), "utf8");
    let reloads = 0;
    for (; goesOn(reloads); reloads += 1) {
      const kind = random.below(8);
      if (kind === 0) await this.#break(config);
      if (kind <= 2)
        await this.#write(`${config}\ninstance_group [ { kind: KIND_CPU count: ${1 + random.below(3)} } ]`);
      else if (kind <= 4)
        await this.#write(`${config}\nparameters { key: "reload" value { string_value: "${reloads}" } }`);
      else await utimes(join(this.#folder, "1", "model.onnx"), reloads, reloads);
      await this.#load(200);
      await sleep(pauseMs);
    }
    return { reloads, refusedLoads: this.#refused };
  }

  async #break(config: string): Promise<void> {
    this.#refused += 1;
    await this.#write(
      `${config}\n${this.#refused % 2 === 0 ? "bogus: 1" : 'parameters { key: "execution_mode" value { string_value: "x" } } default_model_filename: "nosuch.onnx"'}`,
    );
    await this.#load(this.#refused % 2 === 0 ? 500 : 400);
  }

  #write(text: string): Promise<void> {
    return writeFile(join(this.#folder, "config.pbtxt"), text);
  }

  async #load(expected: number): Promise<void> {
    const { status, body } = await this.#client.send({ path: "/v2/repository/models/simple/load" });
    assert.equal(status, expected, body.toString());
  }
}

async function answeredBy(client: KeepAliveClient, model: string): Promise<number> {
  const { body } = await client.send({ method: "GET", path: `/v2/models/${model}/stats` });
  const { model_stats } = JSON.parse(body.toString()) as {
    model_stats: readonly { inference_stats: { success: { count: number } } }[];
  };
  return model_stats[0]?.inference_stats.success.count ?? 0;
}
