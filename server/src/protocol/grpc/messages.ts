/**
 * Messages off the hot path, through protobufjs and the committed schema (KServe V2, grpc_service.proto). Field names
 * are those of the .proto files.
 */
import { schema } from "@nereid/wire";
import protobuf from "protobufjs/light.js";
import type { OutgoingMessage } from "./routes/method.ts";
import { GRPC_STATUS, GrpcError } from "./status.ts";
import { PREFIX_BYTES } from "./transport/message-reader.ts";

/** Decodes one message type into plain objects and encodes another from them. */
export interface MessagePair<Request> {
  /** Every field is there; a oneof is named by its chosen member. @throws GrpcError */
  decode(bytes: Uint8Array): Request;
  encode(response: object): OutgoingMessage;
}

export class MessageTypes {
  readonly #root: protobuf.Root = protobuf.Root.fromJSON(schema as protobuf.INamespace);

  /** `Request` must have the fields of `requestType` in the schema. */
  pair<Request>(requestType: string, responseType: string): MessagePair<Request> {
    const input = this.#root.lookupType(requestType);
    const output = this.#root.lookupType(responseType);
    return {
      decode: (bytes) => decode(input, bytes) as Request,
      encode: (response) => encode(output, response),
    };
  }
}

function decode(type: protobuf.Type, bytes: Uint8Array): unknown {
  try {
    return type.toObject(type.decode(bytes), { defaults: true, oneofs: true, longs: String });
  } catch (error) {
    throw new GrpcError(GRPC_STATUS.internal, "Unable to parse request", { cause: error });
  }
}

function encode(type: protobuf.Type, response: object): OutgoingMessage {
  const body = type.encode(type.fromObject(response)).finish();
  const message = Buffer.allocUnsafe(PREFIX_BYTES + body.length);
  message.set(body, PREFIX_BYTES);
  return [message];
}
