/** Makes a unary method from a function of request object to response object (gRPC over HTTP/2). */

import type { RestrictedApi } from "../../restriction.ts";
import type { MessageTypes } from "../messages.ts";
import type { GrpcMethod, UnaryMethod } from "./method.ts";

export type MethodEntry = readonly [path: string, method: GrpcMethod];

const SERVICE = "inference.GRPCInferenceService";

export function inferencePath(rpc: string): string {
  return `/${SERVICE}/${rpc}`;
}

/** An RPC of the inference service, whose messages are named after it. `Request` has the fields of its request message. */
export function unaryEntry<Request>(
  types: MessageTypes,
  rpc: string,
  group: RestrictedApi,
  run: (request: Request) => object | Promise<object>,
): MethodEntry {
  const pair = types.pair<Request>(`inference.${rpc}Request`, `inference.${rpc}Response`);
  return [inferencePath(rpc), unaryMethod(group, pair, run)];
}

export function unaryMethod<Request>(
  group: RestrictedApi,
  pair: ReturnType<typeof MessageTypes.prototype.pair<Request>>,
  run: (request: Request) => object | Promise<object>,
): UnaryMethod {
  return {
    kind: "unary",
    group,
    isInference: false,
    handle: async (message) => pair.encode(await run(pair.decode(message))),
  };
}
