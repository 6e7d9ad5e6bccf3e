/** Requests over ModelStreamInfer, each on a stream of its own. */
import { Client, credentials } from "@grpc/grpc-js";
import { bytesField, intField, messageField } from "../../tests/fakes/onnx-writer.ts";

const METHOD = "/inference.GRPCInferenceService/ModelStreamInfer";
/** Tag of ModelStreamInferResponse.error_message: in a good answer the first field is infer_response. */
const ERROR_TAG = 0x0a;

export interface StreamedInput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Buffer;
}

export interface StreamedAnswer {
  /** Texts of the requested output. */
  readonly texts: readonly string[];
  readonly firstMs: number;
  readonly numMessages: number;
}

export class GrpcStreams {
  readonly #client: Client;

  constructor(port: number) {
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      "grpc.max_concurrent_streams": 1000,
    });
  }

  /** `textOutput`: the output of the model that is a text, asked for alone. */
  infer(model: string, inputs: readonly StreamedInput[], textOutput: string | undefined): Promise<StreamedAnswer> {
    const startMs = performance.now();
    const asIs = (bytes: Buffer): Buffer => bytes;
    const call = this.#client.makeBidiStreamRequest(METHOD, asIs, asIs);
    const texts: string[] = [];
    let [firstMs, numMessages] = [0, 0];
    return new Promise((resolve, reject) => {
      call.on("data", (message: Buffer) => {
        if (message[0] === ERROR_TAG) reject(new Error(`no token: ${message.toString("latin1").slice(0, 400)}`));
        if (numMessages++ === 0) firstMs = performance.now() - startMs;
        if (textOutput !== undefined) texts.push(lastText(message));
      });
      call.on("error", reject);
      call.on("end", () => resolve({ texts, firstMs, numMessages }));
      call.write(requestOf(model, inputs, textOutput));
      call.end();
    });
  }

  close(): void {
    this.#client.close();
  }
}

function requestOf(model: string, inputs: readonly StreamedInput[], output: string | undefined): Buffer {
  return Buffer.concat([
    bytesField(1, model),
    ...inputs.map(({ name, datatype, shape }) =>
      messageField(5, [bytesField(1, name), bytesField(2, datatype), ...shape.map((size) => intField(3, size))]),
    ),
    ...(output === undefined ? [] : [messageField(6, [bytesField(1, output)])]),
    ...inputs.map(({ data }) => bytesField(7, data)),
  ]);
}

const INFER_RESPONSE = 2;
const RAW_CONTENTS = 6;

/** Text of the response's only output: a length, then the text. */
function lastText(message: Buffer): string {
  const response = fieldsOf(message).find(({ field }) => field === INFER_RESPONSE)?.bytes ?? Buffer.alloc(0);
  const content = fieldsOf(response).find(({ field }) => field === RAW_CONTENTS)?.bytes;
  return content?.toString("utf8", 4) ?? "";
}

/** Fields with a length; those of other kinds are varints here and are passed over. */
function fieldsOf(message: Buffer): readonly { readonly field: number; readonly bytes: Buffer }[] {
  const fields: { field: number; bytes: Buffer }[] = [];
  let at = 0;
  const varint = (): number => {
    let [value, scale] = [0, 1];
    for (;;) {
      const byte = message[at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
  };
  while (at < message.length) {
    const tag = varint();
    const value = varint();
    if ((tag & 7) !== 2) continue;
    fields.push({ field: tag >> 3, bytes: message.subarray(at, at + value) });
    at += value;
  }
  return fields;
}
