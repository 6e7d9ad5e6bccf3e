/**
 * Envoy before two servers, with the configuration of docs/envoy: it weighs them by the load that they report in the header of
 * HTTP and in the trailer of gRPC. Skipped where Envoy is not to be had.
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Client } from "@grpc/grpc-js";
import { encode, identity } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { EnvoyProcess, findEnvoy } from "../support/envoy.ts";
import { openShapeClient, SHAPE_MODELS } from "../support/grpc-shapes.ts";
import { createPipeline } from "../support/llm-pipeline.ts";
import type { ModelRepository } from "../support/model-repository.ts";
import { eventually } from "../support/probe-server.ts";
import { freePorts, type ServerProcess, startServerProcess } from "../support/server-process.ts";

const CONFIG = readFileSync(fileURLToPath(new URL("../../docs/envoy/nereid.yaml", import.meta.url)), "utf8");
/** As they stand in the configuration. */
const PORT = {
  admin: 9901,
  http: 8080,
  grpc: 8081,
  servers: [
    { http: 8000, grpc: 8001 },
    { http: 8010, grpc: 8011 },
  ],
};
/** More than the model has room for at once. */
const NUM_GENERATING = 6;
const NUM_CLIENTS = 4;
const ECHO = JSON.stringify({ inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1], data: [7] }] });
const ECHO_MESSAGE = encode("inference.ModelInferRequest", {
  model_name: "echo",
  inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1] }],
  raw_input_contents: [Buffer.from([7, 0, 0, 0])],
});
const LONG = JSON.stringify({ text_input: "Once upon a time", max_tokens: 400 });
/** Share of the requests that come once Envoy knows the load. */
const MOST = 0.75;

const envoy = await findEnvoy();

describe("Envoy's weighting by load", { skip: envoy.reason ?? false, timeout: 600_000 }, () => {
  let repository: ModelRepository;
  let servers: readonly ServerProcess[] = [];
  let proxy: EnvoyProcess;
  let entry = 0;
  let client: Client;

  before(async () => {
    repository = await createPipeline({ tensorrt_llm: "max_num_sequences:4" });
    const folder = join(repository.path, "echo");
    mkdirSync(join(folder, "1"), { recursive: true });
    writeFileSync(join(folder, "config.pbtxt"), SHAPE_MODELS["echo/config.pbtxt"] ?? "");
    servers = await Promise.all([0, 1].map(() => startServerProcess({ repositories: [repository.path] })));
    const { http, grpc, metrics } = await freePorts();
    entry = http;
    client = openShapeClient(grpc);
    proxy = await EnvoyProcess.start(envoy.program ?? "", configFor(servers, { http, grpc, admin: metrics }), metrics);
  });
  after(async () => {
    client?.close();
    await proxy?.[Symbol.asyncDispose]();
    await Promise.all(servers.map((server) => server.stop()));
    await repository?.[Symbol.asyncDispose]();
  });

  const [ask, call] = [() => askEcho(entry), () => callEcho(client)];
  const cases = [
    { name: "HTTP requests go to the one that is idle", cluster: "nereid_http", loaded: 0, request: ask },
    { name: "HTTP requests change sides when the load does", cluster: "nereid_http", loaded: 1, request: ask },
    { name: "gRPC calls go to the one that is idle", cluster: "nereid_grpc", loaded: 0, request: call },
  ];
  for (const { name, cluster, loaded, request } of cases) {
    it(name, async () => {
      const busy = servers[loaded];
      assert.ok(busy);
      await using _load = keepBusy(busy);
      await eventually(
        () => utilizationOf(busy),
        (share) => share === 1,
      );
      await using _clients = keepDoing(request, NUM_CLIENTS);
      const idlePort = portOf(servers[1 - loaded], cluster);
      await eventually(
        async () => {
          const start = await proxy.requestsByPort(cluster);
          await sleep(1000);
          return shareOf(idlePort, start, await proxy.requestsByPort(cluster));
        },
        (share) => share > MOST,
        40_000,
      );
    });
  }
});

/** The ports of the documented configuration, replaced. */
function configFor(running: readonly ServerProcess[], own: { http: number; grpc: number; admin: number }): string {
  const ports = new Map([
    [PORT.admin, own.admin],
    [PORT.http, own.http],
    [PORT.grpc, own.grpc],
    ...PORT.servers.flatMap(({ http, grpc }, i): [number, number][] => [
      [http, running[i]?.http ?? 0],
      [grpc, running[i]?.grpc ?? 0],
    ]),
  ]);
  const changed = CONFIG.replace(/port_value: (\d+)/g, (_, port: string) => `port_value: ${ports.get(Number(port))}`);
  return changed.replace("blackout_period: 10s", "blackout_period: 1s");
}

function portOf(server: ServerProcess | undefined, cluster: string): number {
  return (cluster === "nereid_grpc" ? server?.grpc : server?.http) ?? 0;
}

function shareOf(port: number, start: ReadonlyMap<number, number>, end: ReadonlyMap<number, number>): number {
  const more = [...end].map(([at, count]) => [at, count - (start.get(at) ?? 0)] as const);
  const all = more.reduce((sum, [, count]) => sum + count, 0);
  return all === 0 ? 0 : (more.find(([at]) => at === port)?.[1] ?? 0) / all;
}

/** Utilization of the language model as the server itself reports it. */
async function utilizationOf({ baseUrl }: ServerProcess): Promise<number> {
  const headers = { "endpoint-load-metrics-format": "json" };
  const response = await fetch(`${baseUrl}/v2/models/echo/infer`, { method: "POST", headers, body: ECHO });
  await response.text();
  const report = response.headers.get("endpoint-load-metrics") ?? "";
  return Number(
    (JSON.parse(report.replace(/^JSON /, "")) as { application_utilization?: number }).application_utilization,
  );
}

/** More long generations than the server has room for, asked of it directly, until it is disposed of. */
function keepBusy({ baseUrl }: ServerProcess): AsyncDisposable {
  return keepDoing(async (signal) => {
    const url = `${baseUrl}/v2/models/ensemble/generate`;
    const response = await fetch(url, { method: "POST", body: LONG, signal });
    assert.equal(response.status, 200, await response.text());
  }, NUM_GENERATING);
}

async function askEcho(port: number): Promise<void> {
  const url = `http://127.0.0.1:${port}/v2/models/echo/infer`;
  const response = await fetch(url, { method: "POST", body: ECHO });
  assert.equal(response.status, 200, await response.text());
  assert.equal(response.headers.get("endpoint-load-metrics"), null, "clients need not see the reports");
}

function callEcho(client: Client): Promise<void> {
  return new Promise((resolve, reject) => {
    const method = "/inference.GRPCInferenceService/ModelInfer";
    client.makeUnaryRequest(method, identity, identity, ECHO_MESSAGE, (error) => (error ? reject(error) : resolve()));
  });
}

/** `width` at a time, over and over. @throws what the work does, when it is disposed of */
function keepDoing(work: (signal: AbortSignal) => Promise<void>, width: number): AsyncDisposable {
  const controller = new AbortController();
  const loop = async (): Promise<void> => {
    while (!controller.signal.aborted) {
      await work(controller.signal).catch((error: unknown) => {
        if (!controller.signal.aborted) throw error;
      });
    }
  };
  const loops = Array.from({ length: width }, loop);
  const settled = Promise.allSettled(loops);
  return {
    async [Symbol.asyncDispose]() {
      controller.abort();
      await settled;
      await Promise.all(loops);
    },
  };
}
