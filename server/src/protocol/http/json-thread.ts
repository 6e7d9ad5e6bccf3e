/** The program of a thread that reads the JSON of large requests and writes that of large outputs. Started by json-threads.ts. */
import { parentPort } from "node:worker_threads";
import { InferRequestReader, JsonWriter, writeTensorData } from "@nereid/wire";
import { JSON_LIMITS } from "./json-access.ts";
import type { JsonAnswer, JsonTask } from "./json-messages.ts";
import { runAtOnce } from "./slices.ts";

const requests: InferRequestReader = new InferRequestReader(JSON_LIMITS);

parentPort?.on("message", (task: JsonTask) => {
  const { answer, buffers } = "text" in task ? read(task.id, task.text) : write(task);
  try {
    parentPort?.postMessage(answer, buffers);
  } catch {
    // Something in it that cannot be sent to another thread: then that one reads it itself.
    parentPort?.postMessage({ id: task.id, text: "text" in task ? task.text : undefined } satisfies JsonAnswer);
  }
});

interface Done {
  readonly answer: JsonAnswer;
  /** Memory that goes with the answer. */
  readonly buffers: ArrayBuffer[];
}

/** A text with a fault goes back: what is wrong with it is said in one place only. */
function read(id: number, text: Uint8Array): Done {
  try {
    const request = runAtOnce(requests.read(text));
    const tensors = Array.isArray(request.inputs) ? request.inputs.map(({ tensor }) => tensor?.data.buffer) : [];
    // Small tensors share their memory, and stay in this thread: they are copied.
    const buffers = tensors.filter((buffer) => buffer instanceof ArrayBuffer && buffer.byteLength > MAX_SHARED_BYTES);
    return { answer: { id, request }, buffers: [...new Set(buffers as ArrayBuffer[])] };
  } catch {
    const { buffer } = text;
    return buffer instanceof ArrayBuffer
      ? { answer: { id, text }, buffers: [buffer] }
      : { answer: { id, text: undefined }, buffers: [] };
  }
}

/** The reader gives tensors up to this size places in memory that it goes on using. */
const MAX_SHARED_BYTES = 65_536;

function write({ id, datatype, data, count, room }: Extract<JsonTask, { data: unknown }>): Done {
  const writer = new JsonWriter(room);
  writer.begin();
  runAtOnce(writeTensorData(writer, datatype, data, count));
  const written = writer.finish();
  const { buffer } = written;
  // The writer takes memory of its own when there is not room enough.
  return buffer instanceof ArrayBuffer
    ? { answer: { id, written }, buffers: [buffer] }
    : { answer: { id, written: written.length }, buffers: [] };
}
