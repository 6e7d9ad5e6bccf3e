/** Makes a unary method from a function of request object to response object (gRPC over HTTP/2). */

import type { RestrictedApi } from "../../../core/restricted-api.ts";
import type { CallAccess } from "../../call-access.ts";
import type { MessageTypes } from "../messages.ts";
import type { GrpcMethod, UnaryMethod } from "./method.ts";

/** `access`: the key of the caller; undefined: calls need none. */
type Run<Request> = (request: Request, access: CallAccess | undefined) => object | Promise<object>;

export type MethodEntry = readonly [path: string, method: GrpcMethod];

const SERVICE = "inference.GRPCInferenceService";

export function inferencePath(rpc: string): string {
  return `/${SERVICE}/${rpc}`;
}

/** An RPC of the inference service, whose messages are named after it. `Request` has the fields of its request message; `modelOf` says which model it is about, for API keys. */
export function unaryEntry<Request>(
  types: MessageTypes,
  rpc: string,
  group: RestrictedApi,
  run: Run<Request>,
  modelOf?: (request: Request) => string,
): MethodEntry {
  const pair = types.pair<Request>(`inference.${rpc}Request`, `inference.${rpc}Response`);
  return [inferencePath(rpc), unaryMethod(group, pair, run, modelOf)];
}

export function unaryMethod<Request>(
  group: RestrictedApi,
  pair: ReturnType<typeof MessageTypes.prototype.pair<Request>>,
  run: Run<Request>,
  modelOf?: (request: Request) => string,
): UnaryMethod {
  return {
    kind: "unary",
    group,
    isInference: false,
    handle: async (message, { access }) => {
      const request = pair.decode(message);
      if (modelOf !== undefined) access?.expect(group, modelOf(request));
      return pair.encode(await run(request, access));
    },
  };
}
