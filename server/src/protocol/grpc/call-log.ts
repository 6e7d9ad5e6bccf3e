/**
 * Lines for each call over gRPC at verbose level 1, in Triton's words: its start, each request of a stream, its end.
 * Calls have a number by RPC. Triton's further lines tell of its completion queues and have no counterpart here.
 * Source: triton-inference-server/server, grpc/grpc_server.cc, infer_handler.cc and stream_infer_handler.cc, `Process`.
 */
import type { Logger } from "../../observe/log.ts";

interface CalledRpc {
  readonly name: string;
  readonly location: string;
  readonly isStream: boolean;
  numCalls: number;
}

type RpcName = Omit<CalledRpc, "numCalls">;

const MODEL_STREAM_INFER: RpcName = {
  name: "ModelStreamInferHandler",
  location: "stream_infer_handler",
  isStream: true,
};

/** RPCs that Triton's log calls by another name than their path. */
const NAMES: ReadonlyMap<string, RpcName> = new Map([
  ["ModelInfer", { name: "ModelInferHandler", location: "infer_handler", isStream: false }],
  ["ModelStreamInfer", MODEL_STREAM_INFER],
  ["TraceSetting", { name: "Trace", location: "grpc_server", isStream: false }],
  ["LogSettings", { name: "Logging", location: "grpc_server", isStream: false }],
]);

export class CallLog {
  readonly #log: Logger;
  /** By path. */
  readonly #rpcs: ReadonlyMap<string, CalledRpc>;

  constructor(log: Logger, paths: Iterable<string>) {
    this.#log = log;
    this.#rpcs = new Map([...paths].map((path) => [path, rpcOf(path)]));
  }

  /** The number of the call, for the lines about it. */
  started(path: string): number {
    const rpc = this.#rpcs.get(path);
    if (rpc === undefined) return 0;
    const id = rpc.numCalls++;
    this.#log.verbose(1, rpc.location, () => processLine(rpc, id, 0, "START"));
    return id;
  }

  ended(path: string, id: number): void {
    const rpc = this.#rpcs.get(path);
    if (rpc !== undefined) this.#log.verbose(1, rpc.location, () => `Done for ${rpc.name}, ${id}`);
  }
}

/** The `request`th request of a stream, counted from 1. */
export function logStreamRequest(log: Logger, id: number, request: number): void {
  const { location } = MODEL_STREAM_INFER;
  log.verbose(1, location, () => processLine(MODEL_STREAM_INFER, id, request, "READ"));
}

function processLine({ name, isStream }: RpcName, id: number, request: number, step: "START" | "READ"): string {
  return `Process for ${name}, rpc_ok=1, ${isStream ? `context ${id}, ${request}` : id} step ${step}`;
}

function rpcOf(path: string): CalledRpc {
  const rpc = path.slice(path.lastIndexOf("/") + 1);
  return { ...(NAMES.get(rpc) ?? { name: rpc, location: "grpc_server", isStream: false }), numCalls: 0 };
}
