/**
 * The messages between the server and a backend's host. The counterparts are `serve.cc`, `served_model.cc` and
 * `read_requests.cc` of `server/backend-host`. Tensors and responses have the form of those of the Python process.
 */
import type { SequenceInfo } from "../../core/infer-request.ts";
import { type ErrorCode, ServerError } from "../../core/server-error.ts";
import type { BackendRequest, InstanceSpec, ResponseReport } from "../backend.ts";
import { ERROR_CODES, type Frame } from "../python/messages.ts";
import { type DataPlacer, type FrameReader, FrameWriter } from "../python/wire-codec.ts";

/** Both sides refuse to talk to another version. */
export const PROTOCOL_VERSION = 1;

const LOAD = 1;
const EXECUTE = 2;
const INSTANCE = 12;
const CLOSE_INSTANCE = 13;

/** Message kinds of a host beyond those of a Python process, by the first byte. */
export const LOADED = 80;
export const INSTANCE_READY = 81;
export const RESPONSE_STATISTICS = 82;
export const ENDED = 83;
export const INSTANCE_CLOSED = 84;

const FLAG_SEQUENCE_START = 1;
const FLAG_SEQUENCE_END = 2;
const KINDS: readonly InstanceSpec["kind"][] = ["KIND_CPU", "KIND_GPU", "KIND_MODEL"];
const NS_PER_MS = 1e6;

export interface LoadMessage {
  /** Absolute path of the shared library. */
  readonly library: string;
  readonly backend: string;
  /** The backend's settings as Triton gives them: `{"cmdline": {...}}`. */
  readonly backendConfigJson: string;
  readonly model: string;
  readonly version: number;
  readonly modelFolder: string;
  readonly configJson: string;
  readonly autoComplete: boolean;
  readonly decoupled: boolean;
  /** Output names of the sequence states of the configuration. */
  readonly states: readonly string[];
}

export interface InstanceMessage {
  readonly number: number;
  readonly spec: InstanceSpec;
  /** `{"<name>": {...}}`: one member. */
  readonly hostPolicyJson: string;
  readonly profiles: readonly string[];
}

/** `outputBytes`: size of the memory file for outputs that the host has inherited; 0 = none. */
export function encodeLoad(message: LoadMessage, outputBytes: number): Frame {
  const writer = new FrameWriter(LOAD);
  writer.string(message.library);
  writer.string(message.backend);
  writer.string(message.backendConfigJson);
  writer.string(message.model);
  writer.u64(BigInt(message.version));
  writer.string(message.modelFolder);
  writer.string(message.configJson);
  writer.u8(message.autoComplete ? 1 : 0);
  writer.u8(message.decoupled ? 1 : 0);
  writer.strings(message.states);
  writer.i64(outputBytes);
  return writer.finish();
}

export function encodeInstance({ number, spec, hostPolicyJson, profiles }: InstanceMessage): Frame {
  const writer = new FrameWriter(INSTANCE);
  writer.u32(number);
  writer.string(spec.name);
  writer.u8(KINDS.indexOf(spec.kind));
  writer.i64(spec.deviceId);
  writer.string(hostPolicyJson);
  writer.strings(profiles);
  return writer.finish();
}

export function encodeCloseInstance(number: number): Frame {
  const writer = new FrameWriter(CLOSE_INSTANCE);
  writer.u32(number);
  return writer.finish();
}

/** `keys` name the requests in later messages, in order. */
export function encodeExecute(
  instance: number,
  batchId: number,
  requests: readonly BackendRequest[],
  keys: readonly number[],
  placer: DataPlacer,
): Frame {
  const writer = new FrameWriter(EXECUTE, placer);
  writer.u32(instance);
  writer.u32(batchId);
  writer.u32(requests.length);
  for (const [index, { request, outputNames }] of requests.entries()) {
    writer.u32(keys[index] ?? 0);
    encodeSequence(writer, request.sequence, request.timeoutUs);
    writer.string(request.id);
    writer.parameters(request.parameters);
    writer.strings(outputNames);
    writer.u32(request.inputs.length);
    for (const input of request.inputs) writer.tensor(input);
    writer.u8(request.signal.aborted ? 1 : 0);
  }
  return writer.finish();
}

/** Throws what the library said when it refused. @throws ServerError */
export function expectSuccess(reader: FrameReader): void {
  const failed = reader.bool();
  const code: ErrorCode = ERROR_CODES[reader.u8()] ?? "unknown";
  const text = reader.string();
  if (failed) throw new ServerError(code, text);
}

export interface ExecutedMessage {
  readonly batchId: number;
  /** In ms of `performance.now()`; undefined: the backend has reported no times. */
  readonly times: { readonly computeStartMs: number; readonly computeEndMs: number } | undefined;
}

/** After the number of the instance. `originMs`: as of `monotonicOriginMs`. */
export function decodeExecuted(reader: FrameReader, originMs: number): ExecutedMessage {
  const batchId = reader.u32();
  const isReported = reader.bool();
  reader.u64(); // the start of the execution: the server has its own
  const computeStartMs = millisecondsOf(reader.u64(), originMs);
  const computeEndMs = millisecondsOf(reader.u64(), originMs);
  return { batchId, times: isReported ? { computeStartMs, computeEndMs } : undefined };
}

/** After the key. A response without an output start made no outputs (core, infer_stats.cc). */
export function decodeResponseReport(reader: FrameReader, originMs: number): ResponseReport {
  const startMs = millisecondsOf(reader.u64(), originMs);
  const outputStartNs = reader.u64();
  const endMs = millisecondsOf(reader.u64(), originMs);
  const failure = reader.u8();
  const outputStartMs = outputStartNs === 0n ? undefined : millisecondsOf(outputStartNs, originMs);
  const outcome = failure === 0 ? (outputStartMs === undefined ? "empty_response" : "success") : failedOutcome(failure);
  return { startMs, outputStartMs, endMs, outcome };
}

/** The value of `performance.now()` when the clock of reported times, CLOCK_MONOTONIC, was 0. */
export function monotonicOriginMs(nowMs: number, monotonicNs: bigint): number {
  return nowMs - Number(monotonicNs) / NS_PER_MS;
}

function failedOutcome(failure: number): ResponseReport["outcome"] {
  return failure === 2 ? "cancel" : "fail";
}

function millisecondsOf(ns: bigint, originMs: number): number {
  return Number(ns) / NS_PER_MS + originMs;
}

function encodeSequence(writer: FrameWriter, { id, start, end }: SequenceInfo, timeoutUs: number): void {
  writer.u32((start ? FLAG_SEQUENCE_START : 0) | (end ? FLAG_SEQUENCE_END : 0));
  writer.u64(BigInt(timeoutUs));
  writer.u8(typeof id === "string" ? 1 : 0);
  if (typeof id === "string") writer.string(id);
  else writer.u64(id);
}
