import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { schema } from "@nereid/wire";
import { parseServerFlags } from "../config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import { RESTRICTED_APIS, type RestrictedApi } from "../core/restricted-api.ts";
import { frontendsOf, type RunningFrontends } from "../main/frontends.ts";
import { MetricRegistry } from "../observe/metrics.ts";
import { FakeModelServer } from "./grpc/fake-model-server.test-support.ts";
import { TestLog } from "./grpc/test-peer.test-support.ts";

/** Each API has a key of its own, so that the key of another opens nothing. */
const keyOf = (api: RestrictedApi): string => `open-${api}`;
const HEADER = "x-key";

/** Every route of KServe V2 over HTTP, with the API that it belongs to. */
const ROUTES: readonly (readonly [line: string, api: RestrictedApi])[] = [
  ["GET /v2/health/live", "health"],
  ["GET /v2/health/ready", "health"],
  ["GET /v2/models/simple/ready", "health"],
  ["GET /v2", "metadata"],
  ["GET /v2/models/simple", "metadata"],
  ["GET /v2/models/simple/config", "model-config"],
  ["GET /v2/models/simple/stats", "statistics"],
  ["GET /v2/models/stats", "statistics"],
  ["POST /v2/models/simple/infer", "inference"],
  ["POST /v2/models/simple/generate", "inference"],
  ["POST /v2/models/simple/generate_stream", "inference"],
  ["GET /v2/trace/setting", "trace"],
  ["POST /v2/trace/setting", "trace"],
  ["GET /v2/models/simple/trace/setting", "trace"],
  ["POST /v2/models/simple/trace/setting", "trace"],
  ["GET /v2/logging", "logging"],
  ["POST /v2/logging", "logging"],
  ["POST /v2/repository/index", "model-repository"],
  ["POST /v2/repository/r/index", "model-repository"],
  ["POST /v2/repository/models/simple/load", "model-repository"],
  ["POST /v2/repository/models/simple/unload", "model-repository"],
  ["GET /v2/systemsharedmemory/status", "shared-memory"],
  ["POST /v2/systemsharedmemory/region/r/register", "shared-memory"],
  ["POST /v2/systemsharedmemory/region/r/unregister", "shared-memory"],
  ["POST /v2/systemsharedmemory/unregister", "shared-memory"],
  ["GET /v2/cudasharedmemory/status", "shared-memory"],
  ["POST /v2/cudasharedmemory/region/r/register", "shared-memory"],
  ["POST /v2/cudasharedmemory/unregister", "shared-memory"],
];
const SAGEMAKER: readonly (readonly [line: string, api: RestrictedApi])[] = [
  ["GET /ping", "health"],
  ["POST /invocations", "inference"],
  ["GET /models", "model-repository"],
  ["POST /models", "model-repository"],
  ["GET /models/simple", "model-repository"],
  ["DELETE /models/simple", "model-repository"],
  ["POST /models/simple/invoke", "inference"],
];
const VERTEX: readonly (readonly [line: string, api: RestrictedApi])[] = [
  ["GET /health", "health"],
  ["POST /predict", "inference"],
];
/** The API of each RPC. */
const GROUP_OF_RPC: Readonly<Record<string, RestrictedApi>> = {
  ServerLive: "health",
  ServerReady: "health",
  ModelReady: "health",
  ServerMetadata: "metadata",
  ModelMetadata: "metadata",
  ModelInfer: "inference",
  ModelStreamInfer: "inference",
  ModelConfig: "model-config",
  ModelStatistics: "statistics",
  RepositoryIndex: "model-repository",
  RepositoryModelLoad: "model-repository",
  RepositoryModelUnload: "model-repository",
  SystemSharedMemoryStatus: "shared-memory",
  SystemSharedMemoryRegister: "shared-memory",
  SystemSharedMemoryUnregister: "shared-memory",
  CudaSharedMemoryStatus: "shared-memory",
  CudaSharedMemoryRegister: "shared-memory",
  CudaSharedMemoryUnregister: "shared-memory",
  TraceSetting: "trace",
  LogSettings: "logging",
};

const server = new FakeModelServer();
const beds: RunningFrontends[] = [];
let own: RunningFrontends;
let onePort: RunningFrontends;

function optionsOf(...flags: string[]): ServerOptions {
  const locks = RESTRICTED_APIS.flatMap((api) => [
    `--http-restricted-api=${api}:${HEADER}=${keyOf(api)}`,
    `--grpc-restricted-protocol=${api}:${HEADER}=${keyOf(api)}`,
  ]);
  const places = ["http", "grpc"].flatMap((name) => [`--${name}-port=0`, `--${name}-address=127.0.0.1`]);
  const all = ["--model-repository=/m", "--allow-metrics=false", ...places, ...locks, ...flags];
  const parsed = parseServerFlags(all, {});
  assert.equal(parsed.kind, "options");
  return (parsed as { options: ServerOptions }).options;
}

async function open(...flags: string[]): Promise<RunningFrontends> {
  const env = { AIP_PREDICT_ROUTE: "/predict", AIP_HEALTH_ROUTE: "/health" };
  const running = frontendsOf(optionsOf(...flags), server, new MetricRegistry(), new TestLog(), { env });
  await running.listen();
  beds.push(running);
  return running;
}

before(async () => {
  const sagemaker = ["--allow-sagemaker=true", "--sagemaker-port=0"];
  own = await open(...sagemaker, "--allow-vertex-ai=true", "--vertex-ai-port=0", "--vertex-ai-default-model=simple");
  onePort = await open("--one-port=true");
});
after(async () => {
  await Promise.all(beds.map((bed) => bed.closeInference(1000)));
});

async function statusOf(port: number, line: string, key: string | undefined): Promise<number> {
  const [method = "", path = ""] = line.split(" ");
  const headers = key === undefined ? {} : { [HEADER]: key };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers,
    body: method === "POST" ? "{}" : null,
  });
  await response.arrayBuffer();
  return response.status;
}

const LISTENERS: readonly (readonly [name: string, port: () => number, routes: typeof ROUTES])[] = [
  ["http", () => own.endpoints.get("http")?.port ?? 0, ROUTES],
  ["one port", () => onePort.endpoints.get("http")?.port ?? 0, ROUTES],
  ["sagemaker", () => own.endpoints.get("sagemaker")?.port ?? 0, SAGEMAKER],
  ["vertex", () => own.endpoints.get("vertex_ai")?.port ?? 0, VERTEX],
];
for (const [name, port, routes] of LISTENERS) {
  for (const [line, api] of routes) {
    test(`${name}: ${line} is restricted as ${api}`, async () => {
      assert.equal(await statusOf(port(), line, undefined), 403);
      const other = RESTRICTED_APIS.find((each) => each !== api);
      assert.equal(await statusOf(port(), line, other === undefined ? "" : keyOf(other)), 403);
      assert.notEqual(await statusOf(port(), line, keyOf(api)), 403);
    });
  }
}

const identity = (bytes: Buffer): Buffer => bytes;

/** The code of the first answer or of the end. */
function grpcStatus(port: number, rpc: string, key: string | undefined): Promise<number> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  const metadata = new Metadata();
  if (key !== undefined) metadata.set(`triton-grpc-protocol-${HEADER}`, key);
  const path = `/inference.GRPCInferenceService/${rpc}`;
  return new Promise<number>((resolve) => {
    if (rpc === "ModelStreamInfer") {
      const stream = client.makeBidiStreamRequest(path, identity, identity, metadata);
      stream.on("data", () => undefined);
      stream.on("error", ({ code }: ServiceError) => resolve(code));
      stream.on("end", () => resolve(status.OK));
      stream.end();
      return;
    }
    client.makeUnaryRequest(path, identity, identity, Buffer.alloc(0), metadata, {}, (error) =>
      resolve(error?.code ?? status.OK),
    );
  }).finally(() => client.close());
}

const SERVICE = (schema as unknown as { nested: { inference: { nested: Record<string, { methods?: object }> } } })
  .nested.inference.nested.GRPCInferenceService;

test("the table of RPCs has all of the service", () => {
  assert.deepEqual(Object.keys(SERVICE?.methods ?? {}).sort(), Object.keys(GROUP_OF_RPC).sort());
});

for (const [name, running] of [
  ["grpc", () => own.endpoints.get("grpc")?.port ?? 0],
  ["one port", () => onePort.endpoints.get("http")?.port ?? 0],
] as const) {
  for (const [rpc, api] of Object.entries(GROUP_OF_RPC)) {
    test(`${name}: ${rpc} is restricted as ${api}`, async () => {
      assert.equal(await grpcStatus(running(), rpc, undefined), status.UNAVAILABLE);
      const other = RESTRICTED_APIS.find((each) => each !== api) ?? api;
      assert.equal(await grpcStatus(running(), rpc, keyOf(other)), status.UNAVAILABLE);
      assert.notEqual(await grpcStatus(running(), rpc, keyOf(api)), status.UNAVAILABLE);
    });
  }
}
