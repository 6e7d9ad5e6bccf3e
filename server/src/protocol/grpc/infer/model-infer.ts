/** ModelInfer, the unary inference RPC (KServe V2, gRPC). */
import type { InferRequestMessage } from "@nereid/wire";
import type { InferResponse } from "../../../core/infer-response.ts";
import type { ModelServer } from "../../../core/model-server.ts";
import { ServerError } from "../../../core/server-error.ts";
import { requestPrefix } from "../../../core/validate-request.ts";
import type { Logger } from "../../../observe/log.ts";
import { meteredModel } from "../../metered-infer.ts";
import { RequestMemory } from "../../request-memory.ts";
import type { SharedMemoryRegions } from "../../shared-memory.ts";
import { admitted } from "../key-check.ts";
import type { CallContext, OutgoingMessage, UnaryMethod } from "../routes/method.ts";
import { startGrpcTrace } from "../trace-calls.ts";
import { type ProtoInferCodec, prepareInfer } from "./infer-codec.ts";

export interface InferParts {
  readonly server: ModelServer;
  readonly codec: ProtoInferCodec;
  readonly forwardPattern: RegExp | undefined;
  readonly regions: SharedMemoryRegions;
  readonly log: Logger;
}

export function modelInferMethod(parts: InferParts): UnaryMethod {
  const { regions } = parts;
  /** For all requests where no region can be registered: finds none and holds none. */
  const noMemory = new RequestMemory(regions);
  return {
    kind: "unary",
    group: "inference",
    isInference: true,
    handle: (message, call) =>
      regions.isAllowed ? modelInferWithMemory(parts, message, call) : modelInfer(parts, message, call, noMemory),
  };
}

async function modelInferWithMemory(parts: InferParts, bytes: Uint8Array, call: CallContext): Promise<OutgoingMessage> {
  const memory = new RequestMemory(parts.regions);
  try {
    return await modelInfer(parts, bytes, call, memory);
  } finally {
    memory.release();
  }
}

/** A refusal or failure at verbose level 1, which clients see as the status of their call. */
export function logInferFailure(log: Logger, location: string, id: string, error: unknown): void {
  log.verbose(1, location, () => `${requestPrefix({ id })}Infer failed: ${ServerError.from(error).message}`);
}

function modelInfer(
  parts: InferParts,
  bytes: Uint8Array,
  call: CallContext,
  memory: RequestMemory,
): Promise<OutgoingMessage> {
  const { server, codec } = parts;
  const readMs = server.tracing.isOn ? performance.now() : 0;
  const message = codec.decode(bytes);
  const { access } = call;
  return admitted(access, message.modelName, () => inferMessage(parts, message, call, { memory, readMs }));
}

async function inferMessage(
  { server, codec, forwardPattern, log }: InferParts,
  message: InferRequestMessage,
  call: CallContext,
  { memory, readMs }: { readonly memory: RequestMemory; readonly readMs: number },
): Promise<OutgoingMessage> {
  try {
    const model = server.model(message.modelName, message.modelVersion);
    if (model.decoupled) {
      const text = "ModelInfer RPC doesn't support models with decoupled transaction policy";
      throw new ServerError("unsupported", text);
    }
    const { metadata, cancellation, access } = call;
    if (server.tracing.isOn) call.trace = startGrpcTrace(server.tracing, model.name, metadata, readMs);
    const { trace } = call;
    const infer = prepareInfer(message, model, { metadata, forwardPattern, cancellation, access, memory, trace });
    const responses = meteredModel(model, access, infer.request.inputs).infer(infer.request)[Symbol.asyncIterator]();
    const first = await responses.next();
    const response = first.done !== true && first.value.final ? first.value : await onlyResponse(first, responses);
    if (response.error !== undefined) throw response.error;
    trace?.mark("GRPC_SEND_START", performance.now());
    return codec.encode(response, infer);
  } catch (error) {
    logInferFailure(log, "infer_handler", message.id, error);
    throw error;
  }
}

/** A model may end with a flag of its own behind its response; more than one response is its fault. */
async function onlyResponse(
  first: IteratorResult<InferResponse>,
  rest: AsyncIterator<InferResponse>,
): Promise<InferResponse> {
  let only: InferResponse | undefined;
  let count = 0;
  for (let next = first; next.done !== true; next = await rest.next()) {
    if (next.value.empty) continue;
    count += 1;
    only ??= next.value;
  }
  if (only === undefined || count !== 1) {
    throw new ServerError("internal", `expected a single response, got ${count}`);
  }
  return only;
}
