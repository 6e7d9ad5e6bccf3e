/** One generation over gRPC: a ModelStreamInfer call with one request to the model `ensemble`. */
import { Client, credentials } from "@grpc/grpc-js";
import { bytesField, intField, messageField } from "../../tests/fakes/onnx-writer.ts";
import { NEW_TOKENS } from "./prompts.ts";
import { Arrivals, type Generation } from "./stream.ts";

const METHOD = "/inference.GRPCInferenceService/ModelStreamInfer";
/** Tag of ModelStreamInferResponse.error_message: in a good answer the first field is infer_response. */
const ERROR_TAG = 0x0a;

export class GrpcGenerator {
  readonly #client: Client;

  constructor(port: number) {
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  }

  generate(prompt: string): Promise<Generation> {
    const arrivals = new Arrivals();
    const asIs = (bytes: Buffer): Buffer => bytes;
    const call = this.#client.makeBidiStreamRequest(METHOD, asIs, asIs);
    return new Promise((resolve, reject) => {
      call.on("data", (message: Buffer) => {
        if (message[0] === ERROR_TAG) reject(new Error(`no token: ${message.toString("latin1")}`));
        arrivals.arrived();
      });
      call.on("error", reject);
      call.on("end", () => resolve(arrivals.end()));
      call.write(requestOf(prompt));
      call.end();
    });
  }

  close(): void {
    this.#client.close();
  }
}

function requestOf(prompt: string): Buffer {
  const text = Buffer.from(prompt);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  const inputs = [
    ["text_input", "BYTES", Buffer.concat([length, text])],
    ["max_tokens", "INT32", int32(NEW_TOKENS)],
    ["min_length", "INT32", int32(NEW_TOKENS)],
    ["stream", "BOOL", Buffer.from([1])],
  ] as const;
  return Buffer.concat([
    bytesField(1, "ensemble"),
    ...inputs.map(([name, datatype]) =>
      messageField(5, [bytesField(1, name), bytesField(2, datatype), intField(3, 1), intField(3, 1)]),
    ),
    ...inputs.map(([, , data]) => bytesField(7, data)),
  ]);
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}
