/** A call of every route of KServe V2, so that a test of access names classes of routes and never forgets one. */
import { Client, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import type { RestrictedApi } from "@nereid/server/core/restricted-api";
import { FakeModelServer } from "@nereid/server/protocol/grpc/fake-model-server.test-support";
import { createMethods } from "@nereid/server/protocol/grpc/routes/methods";
import { GRPC_TEST_OPTIONS, TestLog } from "@nereid/server/protocol/grpc/test-peer.test-support";
import type { RouteName } from "@nereid/server/protocol/http/routes/router";
import { SharedMemoryRegions } from "@nereid/server/protocol/shared-memory";

export interface HttpRoute {
  readonly api: RestrictedApi;
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
}

const get = (api: RestrictedApi, path: string): HttpRoute => ({ api, method: "GET", path });
const post = (api: RestrictedApi, path: string): HttpRoute => ({ api, method: "POST", path });

/** By route; the compiler notices one that is missing. Nothing here changes the model that tests ask. */
const BY_NAME = (model: string): Readonly<Record<RouteName, readonly HttpRoute[]>> => ({
  live: [get("health", "/v2/health/live")],
  ready: [get("health", "/v2/health/ready")],
  modelReady: [get("health", `/v2/models/${model}/ready`), get("health", `/v2/models/${model}/versions/1/ready`)],
  serverMetadata: [get("metadata", "/v2")],
  modelMetadata: [get("metadata", `/v2/models/${model}`), get("metadata", `/v2/models/${model}/versions/1`)],
  modelConfig: [get("model-config", `/v2/models/${model}/config`)],
  modelStatistics: [get("statistics", `/v2/models/${model}/stats`)],
  allStatistics: [get("statistics", "/v2/models/stats")],
  infer: [post("inference", `/v2/models/${model}/infer`), post("inference", `/v2/models/${model}/versions/1/infer`)],
  generate: [post("inference", `/v2/models/${model}/generate`)],
  generateStream: [post("inference", `/v2/models/${model}/generate_stream`)],
  traceSetting: [
    get("trace", "/v2/trace/setting"),
    post("trace", "/v2/trace/setting"),
    get("trace", `/v2/models/${model}/trace/setting`),
    post("trace", `/v2/models/${model}/trace/setting`),
  ],
  logging: [get("logging", "/v2/logging"), post("logging", "/v2/logging")],
  index: [post("model-repository", "/v2/repository/index")],
  load: [post("model-repository", `/v2/repository/models/${model}/load`)],
  unload: [post("model-repository", `/v2/repository/models/${model}/unload`)],
  sharedMemoryStatus: [
    get("shared-memory", "/v2/systemsharedmemory/status"),
    get("shared-memory", "/v2/cudasharedmemory/status"),
  ],
  sharedMemoryRegister: [post("shared-memory", "/v2/systemsharedmemory/region/r/register")],
  sharedMemoryUnregister: [post("shared-memory", "/v2/systemsharedmemory/unregister")],
});

export function httpRoutes(model: string): readonly HttpRoute[] {
  return Object.values(BY_NAME(model)).flat();
}

export interface GrpcRoute {
  readonly path: string;
  readonly kind: "unary" | "stream";
  /** Undefined: reflection. */
  readonly group: RestrictedApi | undefined;
}

/** From the table of the front end itself. */
export function grpcRoutes(): readonly GrpcRoute[] {
  const methods = createMethods(
    new FakeModelServer(),
    GRPC_TEST_OPTIONS,
    new SharedMemoryRegions(false),
    new TestLog(),
  );
  return [...methods].map(([path, { kind, group }]) => ({ path, kind, group }));
}

const asItIs = (bytes: Buffer): Buffer => bytes;

export interface GrpcAnswer {
  readonly code: number;
  readonly details: string;
  readonly messages: readonly Buffer[];
}

export class RawGrpc implements Disposable {
  readonly #client: Client;

  constructor(port: number) {
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      "grpc.use_local_subchannel_pool": 1,
    });
  }

  /** Sends the messages and ends; a stream that stays open is cancelled after its first response. */
  call(
    { path, kind }: Pick<GrpcRoute, "path" | "kind">,
    headers: Readonly<Record<string, string>>,
    sent: readonly Buffer[] = [Buffer.alloc(0)],
  ): Promise<GrpcAnswer> {
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
    return kind === "unary"
      ? this.#unary(path, metadata, sent[0] ?? Buffer.alloc(0))
      : this.#stream(path, metadata, sent);
  }

  #unary(path: string, metadata: Metadata, message: Buffer): Promise<GrpcAnswer> {
    return new Promise((resolve) => {
      this.#client.makeUnaryRequest(path, asItIs, asItIs, message, metadata, (error: ServiceError | null, answer) => {
        const messages = answer === undefined ? [] : [answer];
        resolve({ code: error?.code ?? 0, details: error?.details ?? "", messages });
      });
    });
  }

  #stream(path: string, metadata: Metadata, sent: readonly Buffer[]): Promise<GrpcAnswer> {
    const stream = this.#client.makeBidiStreamRequest(path, asItIs, asItIs, metadata);
    const messages: Buffer[] = [];
    return new Promise((resolve) => {
      stream.on("data", (bytes: Buffer) => {
        messages.push(bytes);
        if (path.endsWith("/Watch")) {
          stream.cancel();
          resolve({ code: 0, details: "", messages });
        }
      });
      stream.on("error", ({ code, details }: ServiceError) => resolve({ code, details, messages }));
      stream.on("status", ({ code, details }) => code === 0 && resolve({ code, details, messages }));
      for (const message of sent) stream.write(message);
      stream.end();
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}
