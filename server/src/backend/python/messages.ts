/** The messages between server and stub. The counterpart is `server/python/nereid_stub/messages.py`. */
import type { InferRequest, ParameterValue, SequenceInfo } from "../../core/infer-request.ts";
import { type ErrorCode, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { BackendRequest } from "../backend.ts";
import { parametersJson } from "./parameters-json.ts";
import { type DataPlacer, type FrameReader, FrameWriter } from "./wire-codec.ts";

/** Both sides refuse to talk to another version. */
export const PROTOCOL_VERSION = 5;

const INITIALIZE = 1;
const EXECUTE = 2;
const CANCEL = 3;
const CREDIT = 4;
const CALL_RESPONSE = 5;
const FINALIZE = 6;
const ANSWER = 7;
const CHECK_READY = 8;
const COPIED = 9;
const PING = 10;
const RETURNED = 11;

/** Message kinds of a stub, by the first byte. */
export const HELLO = 65;
export const INITIALIZED = 66;
export const EXECUTED = 67;
export const RESPONSE = 68;
export const CALL = 69;
export const CALL_CANCEL = 70;
export const LOG = 71;
export const FINALIZED = 72;
export const ASK = 73;
export const READINESS = 74;
export const RELEASED = 75;
export const PONG = 76;
export const RESCHEDULE = 77;

/** A request of a batch, as written to the stub. */
const BY_SENDER = 0;
const RESCHEDULED = 2;
const READINESS_STATES = ["ready", "not ready", "failed"] as const;

const FLAG_SEQUENCE_START = 1;
const FLAG_SEQUENCE_END = 2;

/** By Triton's number. */
export const ERROR_CODES: readonly ErrorCode[] = [
  "unknown",
  "internal",
  "not_found",
  "invalid_argument",
  "unavailable",
  "unsupported",
  "already_exists",
  "cancelled",
];

export type Frame = readonly Uint8Array[];

export interface InitializeMessage {
  /** "describe" asks for the completed configuration only. */
  readonly mode: "describe" | "serve";
  /** Instance name, or the model's when describing. */
  readonly name: string;
  readonly version: string;
  readonly versionFolder: string;
  readonly file: string;
  readonly modelFolder: string;
  readonly configJson: string;
  readonly decoupled: boolean;
  /** Arguments of `initialize`. */
  readonly arguments: ReadonlyMap<string, string>;
}

/** One answer of a model, or of a model that a model has called. */
export interface StubResponse {
  readonly error?: ServerError;
  readonly outputs: readonly Tensor[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  /** As in `BackendResponse`. */
  readonly release?: (() => void) | undefined;
}

/** A request of a model to another model. */
export interface CallMessage {
  readonly callId: number;
  readonly decoupled: boolean;
  readonly modelName: string;
  /** -1 = the server's choice. */
  readonly modelVersion: number;
  readonly id: string;
  readonly sequence: SequenceInfo;
  readonly timeoutUs: number;
  readonly outputs: readonly string[];
  readonly inputs: readonly Tensor[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  /** Key of the request whose trace the call belongs to; 0 = none. */
  readonly traceKey: number;
}

/** How a process may hand large tensors over. */
export interface Handover {
  /** The server can copy out of the process's memory. */
  readonly mayLease: boolean;
  /** Size of the memory file for answers that it has inherited; 0 = none. */
  readonly answerBytes: number;
}

export function encodeInitialize(message: InitializeMessage, { mayLease, answerBytes }: Handover): Frame {
  const writer = new FrameWriter(INITIALIZE);
  writer.u8(message.mode === "serve" ? 1 : 0);
  writer.string(message.name);
  writer.string(message.version);
  writer.string(message.versionFolder);
  writer.string(message.file);
  writer.string(message.modelFolder);
  writer.string(message.configJson);
  writer.u8(message.decoupled ? 1 : 0);
  writer.u8(mayLease ? 1 : 0);
  writer.i64(answerBytes);
  writer.u32(message.arguments.size);
  for (const [name, value] of message.arguments) {
    writer.string(name);
    writer.string(value);
  }
  return writer.finish();
}

/** `keys` name the requests in later messages, in order. */
export function encodeExecute(
  batchId: number,
  requests: readonly BackendRequest[],
  keys: readonly number[],
  placer: DataPlacer,
): Frame {
  const writer = new FrameWriter(EXECUTE, placer);
  writer.u32(batchId);
  writer.u32(requests.length);
  for (const [index, { request, outputNames }] of requests.entries()) {
    writer.u32(keys[index] ?? 0);
    writer.u32(flagsOf(request.sequence));
    writer.u64(BigInt(request.timeoutUs));
    encodeCorrelation(writer, request.sequence.id);
    writer.string(request.id);
    writer.string(parametersJson(request.parameters));
    writer.strings(outputNames);
    encodeInputs(writer, request);
    writer.u8(request.signal.aborted ? 1 : 0);
    writer.string(request.trace?.context ?? "");
  }
  return writer.finish();
}

export function encodeCancel(key: number): Frame {
  const writer = new FrameWriter(CANCEL);
  writer.u32(key);
  return writer.finish();
}

/** Tells a sender that the client has taken `count` of its responses. */
export function encodeCredit(key: number, count: number): Frame {
  const writer = new FrameWriter(CREDIT);
  writer.u32(key);
  writer.u32(count);
  return writer.finish();
}

/** An answer to a call; undefined = only the end of a decoupled call. */
export function encodeCallResponse(
  callId: number,
  final: boolean,
  response: StubResponse | undefined,
  placer?: DataPlacer,
): Frame {
  const writer = new FrameWriter(CALL_RESPONSE, placer);
  writer.u32(callId);
  writer.u8(final ? 1 : 0);
  writer.u8(response === undefined ? 0 : 1);
  if (response !== undefined) encodeResponse(writer, response);
  return writer.finish();
}

export function encodeFinalize(): Frame {
  return new FrameWriter(FINALIZE).finish();
}

/** Says how a question of the stub ended: with a value, or an error. */
export function encodeAnswer(number: number, result: number | ServerError): Frame {
  const writer = new FrameWriter(ANSWER);
  writer.u32(number);
  writer.u8(typeof result === "number" ? 0 : 1);
  if (typeof result === "number") writer.f64(result);
  else writer.string(result.message);
  return writer.finish();
}

export function encodeCheckReady(number: number): Frame {
  const writer = new FrameWriter(CHECK_READY);
  writer.u32(number);
  return writer.finish();
}

/** The stub has these leases back. */
export function encodeCopied(leases: readonly number[]): Frame {
  const writer = new FrameWriter(COPIED);
  writer.u32(leases.length);
  for (const lease of leases) writer.u32(lease);
  return writer.finish();
}

/** The server has read the responses at these offsets. */
export function encodeReturned(offsets: readonly number[]): Frame {
  const writer = new FrameWriter(RETURNED);
  writer.u32(offsets.length);
  for (const offset of offsets) writer.i64(offset);
  return writer.finish();
}

export function encodePing(): Frame {
  return new FrameWriter(PING).finish();
}

export interface ReadinessMessage {
  readonly number: number;
  readonly state: (typeof READINESS_STATES)[number];
  /** Error message, when it failed. */
  readonly text: string;
}

export function decodeReadiness(reader: FrameReader): ReadinessMessage {
  const number = reader.u32();
  return { number, state: READINESS_STATES[reader.u8()] ?? "failed", text: reader.string() };
}

/** Outcome of a request of a batch: answered, left to its response sender, or rescheduled. */
export function decodeOutcome(reader: FrameReader): StubResponse | "by sender" | "rescheduled" {
  const tag = reader.u8();
  if (tag === BY_SENDER) return "by sender";
  return tag === RESCHEDULED ? "rescheduled" : decodeResponse(reader);
}

/** Undefined when there is only an end without a response. */
export function decodeOptionalResponse(reader: FrameReader): StubResponse | undefined {
  return reader.bool() ? decodeResponse(reader) : undefined;
}

export function decodeCall(reader: FrameReader): CallMessage {
  const callId = reader.u32();
  const decoupled = reader.bool();
  const modelName = reader.string();
  const modelVersion = Number(reader.i64());
  const id = reader.string();
  const correlation = reader.bool() ? reader.string() : reader.u64();
  const flags = reader.u32();
  return {
    callId,
    decoupled,
    modelName,
    modelVersion,
    id,
    sequence: {
      id: correlation,
      start: (flags & FLAG_SEQUENCE_START) !== 0,
      end: (flags & FLAG_SEQUENCE_END) !== 0,
    },
    timeoutUs: Number(reader.u64()),
    outputs: reader.strings(),
    inputs: reader.list(() => reader.tensor()),
    parameters: reader.parameters(),
    traceKey: reader.u32(),
  };
}

function decodeResponse(reader: FrameReader): StubResponse {
  if (reader.bool()) {
    const code = ERROR_CODES[reader.u8()] ?? "unknown";
    const reason = code === "cancelled" ? "CANCELED" : "BACKEND";
    const error = new ServerError(code, reader.string(), { reason });
    return { error, outputs: [], parameters: reader.parameters() };
  }
  const outputs = reader.list(() => reader.tensor());
  const release = reader.takeRelease();
  return { outputs, parameters: reader.parameters(), ...(release === undefined ? {} : { release }) };
}

function encodeResponse(writer: FrameWriter, { error, outputs, parameters }: StubResponse): void {
  writer.u8(error === undefined ? 0 : 1);
  if (error === undefined) {
    writer.u32(outputs.length);
    for (const output of outputs) writer.tensor(output);
  } else {
    writer.u8(ERROR_CODES.indexOf(error.code));
    writer.string(error.message);
  }
  writer.parameters(parameters);
}

function encodeInputs(writer: FrameWriter, request: InferRequest): void {
  writer.u32(request.inputs.length);
  for (const input of request.inputs) writer.tensor(input);
}

function encodeCorrelation(writer: FrameWriter, id: bigint | string): void {
  writer.u8(typeof id === "string" ? 1 : 0);
  if (typeof id === "string") writer.string(id);
  else writer.u64(id);
}

function flagsOf({ start, end }: SequenceInfo): number {
  return (start ? FLAG_SEQUENCE_START : 0) | (end ? FLAG_SEQUENCE_END : 0);
}
