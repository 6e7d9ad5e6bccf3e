/** The program of a thread that reads the JSON of large requests and writes that of large outputs. Started by json-threads.ts. */
import { constants, getPriority, setPriority } from "node:os";
import process from "node:process";
import { parentPort, workerData } from "node:worker_threads";
import { InferRequestReader, JsonWriter, useFloatMemory, writeTensorData } from "@nereid/wire";
import { runAtOnce } from "../transport/slices.ts";
import { JSON_LIMITS } from "./json-access.ts";
import type { JsonAnswer, JsonTask, JsonThreadData, Place } from "./json-messages.ts";

const requests: InferRequestReader = new InferRequestReader(JSON_LIMITS);
const shared: JsonThreadData | undefined = (workerData as JsonThreadData | null | undefined) ?? undefined;
/** Places in the memory are told by its one buffer, by which the kernels know that they can work there. */
const memory: ArrayBufferLike = shared?.memory.buffer ?? new ArrayBuffer(0);
if (shared !== undefined) useFloatMemory(shared.memory, shared.scratchAt);

standBack();
parentPort?.on("message", (task: JsonTask) => {
  const { answer, buffers } = "text" in task ? read(task.id, bytesOf(task.text)) : write(task);
  try {
    parentPort?.postMessage(answer, buffers);
  } catch {
    // Something in it that cannot be sent to another thread: then that one reads it itself.
    parentPort?.postMessage(
      "text" in task ? fault(task.id, bytesOf(task.text)).answer : { id: task.id, text: undefined },
    );
  }
});

/**
 * Where processors are short, the event loop and the models go first: streamed events, and the next requests for the threads
 * themselves. On Linux a priority is that of a thread; elsewhere it would be the whole process's.
 */
function standBack(): void {
  if (process.platform !== "linux") return;
  const { PRIORITY_BELOW_NORMAL, PRIORITY_LOW } = constants.priority;
  try {
    setPriority(Math.min(getPriority() + PRIORITY_BELOW_NORMAL, PRIORITY_LOW));
  } catch {
    // Forbidden here: then it is as urgent as all else.
  }
}

interface Done {
  readonly answer: JsonAnswer;
  /** Memory that goes with the answer. */
  readonly buffers: ArrayBuffer[];
}

function bytesOf(given: Uint8Array | Place): Uint8Array {
  return given instanceof Uint8Array ? given : new Uint8Array(memory, given.at, given.numBytes);
}

function read(id: number, text: Uint8Array): Done {
  try {
    const request = runAtOnce(requests.read(text));
    const tensors = Array.isArray(request.inputs) ? request.inputs.map(({ tensor }) => tensor?.data.buffer) : [];
    // Small tensors share their memory, and stay in this thread: they are copied.
    const buffers = tensors.filter((buffer) => buffer instanceof ArrayBuffer && buffer.byteLength > MAX_SHARED_BYTES);
    return { answer: { id, request }, buffers: [...new Set(buffers as ArrayBuffer[])] };
  } catch {
    return fault(id, text);
  }
}

/** A text with a fault goes back: what is wrong with it is said in one place only. */
function fault(id: number, text: Uint8Array): Done {
  const { buffer } = text;
  if (buffer instanceof ArrayBuffer) return { answer: { id, text }, buffers: [buffer] };
  return { answer: { id, text: undefined }, buffers: [] };
}

/** The reader gives tensors up to this size places in memory that it goes on using. */
const MAX_SHARED_BYTES = 65_536;

function write({ id, datatype, data, count, room }: Extract<JsonTask, { data: unknown }>): Done {
  const writer = new JsonWriter(room && bytesOf(room));
  writer.begin();
  runAtOnce(writeTensorData(writer, datatype, bytesOf(data), count));
  const written = writer.finish();
  const { buffer } = written;
  // The writer takes memory of its own when there is not room enough.
  if (buffer instanceof ArrayBuffer) return { answer: { id, written }, buffers: [buffer] };
  return { answer: { id, written: written.length }, buffers: [] };
}
