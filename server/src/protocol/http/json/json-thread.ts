/**
 * The program of a thread that reads the JSON of large KServe V2 requests and writes that of large outputs. Started by
 * json-threads.ts.
 */
import { constants, getPriority, setPriority } from "node:os";
import process from "node:process";
import { parentPort, workerData } from "node:worker_threads";
import { InferRequestReader, JsonWriter, useFloatMemory, writeTensorData } from "@nereid/wire";
import { runAtOnce } from "../transport/slices.ts";
import { JSON_LIMITS } from "./json-access.ts";
import type { JsonAnswer, JsonTask, JsonThreadData, SharedRange } from "./json-messages.ts";

const requests: InferRequestReader = new InferRequestReader(JSON_LIMITS);
const shared: JsonThreadData | undefined = (workerData as JsonThreadData | null | undefined) ?? undefined;
/** Ranges are views of this one buffer: the kernels work in place where the buffer is theirs. */
const memory: ArrayBufferLike = shared?.memory.buffer ?? new ArrayBuffer(0);
if (shared !== undefined) useFloatMemory(shared.memory, shared.scratchAt);

lowerPriority();
parentPort?.on("message", (task: JsonTask) => {
  const { answer, buffers } = "text" in task ? read(task.id, bytesOf(task.text)) : write(task);
  try {
    parentPort?.postMessage(answer, buffers);
  } catch {
    // A value that structured clone refuses: the event loop reads the text itself.
    parentPort?.postMessage(
      "text" in task ? fault(task.id, bytesOf(task.text)).answer : { id: task.id, text: undefined },
    );
  }
});

/**
 * The event loop and the models go first where processors are short. On Linux setpriority(2) applies to a thread; elsewhere to
 * the whole process.
 */
function lowerPriority(): void {
  if (process.platform !== "linux") return;
  const { PRIORITY_BELOW_NORMAL, PRIORITY_LOW } = constants.priority;
  try {
    setPriority(Math.min(getPriority() + PRIORITY_BELOW_NORMAL, PRIORITY_LOW));
  } catch {
    // Forbidden: the thread keeps its priority.
  }
}

interface Done {
  readonly answer: JsonAnswer;
  /** Transferred with the answer. */
  readonly buffers: ArrayBuffer[];
}

function bytesOf(given: Uint8Array | SharedRange): Uint8Array {
  return given instanceof Uint8Array ? given : new Uint8Array(memory, given.at, given.numBytes);
}

function read(id: number, text: Uint8Array): Done {
  try {
    const request = runAtOnce(requests.read(text));
    const tensors = Array.isArray(request.inputs) ? request.inputs.map(({ tensor }) => tensor?.data.buffer) : [];
    // Small tensors share an arena that stays in this thread: they are copied.
    const buffers = tensors.filter((buffer) => buffer instanceof ArrayBuffer && buffer.byteLength > MAX_ARENA_BYTES);
    return { answer: { id, request }, buffers: [...new Set(buffers as ArrayBuffer[])] };
  } catch {
    return fault(id, text);
  }
}

/** A text with an error goes back: the event loop alone reports errors. */
function fault(id: number, text: Uint8Array): Done {
  const { buffer } = text;
  if (buffer instanceof ArrayBuffer) return { answer: { id, text }, buffers: [buffer] };
  return { answer: { id, text: undefined }, buffers: [] };
}

/** Size of an arena of the reader. */
const MAX_ARENA_BYTES = 65_536;

function write({ id, datatype, data, count, room }: Extract<JsonTask, { data: unknown }>): Done {
  const writer = new JsonWriter(room && bytesOf(room));
  writer.begin();
  runAtOnce(writeTensorData(writer, datatype, bytesOf(data), count));
  const written = writer.finish();
  const { buffer } = written;
  // The writer allocates when `room` is too small.
  if (buffer instanceof ArrayBuffer) return { answer: { id, written }, buffers: [buffer] };
  return { answer: { id, written: written.length }, buffers: [] };
}
