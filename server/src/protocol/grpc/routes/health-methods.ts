/** grpc.health.v1: the readiness of the server under any service name (gRPC health checking protocol). */
import type { ModelServer } from "../../../core/model-server.ts";
import { ServerError } from "../../../core/server-error.ts";
import { expectRunning } from "../expect-running.ts";
import type { MessagePair, MessageTypes } from "../messages.ts";
import type { StreamCall, StreamHandler } from "./method.ts";
import { type MethodEntry, unaryMethod } from "./unary.ts";

type ServingStatus = "SERVING" | "NOT_SERVING";

/** How soon a watcher learns of a change. */
const WATCH_INTERVAL_MS = 500;

export function healthEntries(server: ModelServer, types: MessageTypes): readonly MethodEntry[] {
  const pair = types.pair("grpc.health.v1.HealthCheckRequest", "grpc.health.v1.HealthCheckResponse");
  const check = unaryMethod("health", pair, () => {
    expectRunning(server);
    return { status: statusOf(server) };
  });
  return [
    ["/grpc.health.v1.Health/Check", check],
    [
      "/grpc.health.v1.Health/Watch",
      { kind: "stream", group: "health", isInference: false, open: (call) => new HealthWatch(server, pair, call) },
    ],
  ];
}

function statusOf(server: ModelServer): ServingStatus {
  return server.state !== "exiting" && server.ready() ? "SERVING" : "NOT_SERVING";
}

/** Sends the status when asked and whenever it has changed. */
class HealthWatch implements StreamHandler {
  readonly #server: ModelServer;
  readonly #pair: MessagePair<unknown>;
  readonly #call: StreamCall;
  #last: ServingStatus | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(server: ModelServer, pair: MessagePair<unknown>, call: StreamCall) {
    this.#server = server;
    this.#pair = pair;
    this.#call = call;
    call.cancellation.signal.addEventListener("abort", () => clearInterval(this.#timer));
  }

  message(bytes: Uint8Array): undefined {
    this.#pair.decode(bytes);
    if (this.#timer !== undefined) return;
    this.#send(statusOf(this.#server));
    this.#timer = setInterval(() => this.#send(statusOf(this.#server)), WATCH_INTERVAL_MS).unref();
  }

  halfClose(): void {
    if (this.#timer === undefined) this.#call.fail(new ServerError("internal", "No payload"));
  }

  drain(): void {
    this.#send("NOT_SERVING");
    this.#call.fail(new ServerError("unavailable", "Server exiting"));
  }

  #send(status: ServingStatus): void {
    if (status === this.#last) return;
    this.#last = status;
    void this.#call.send(this.#pair.encode({ status }));
  }
}
