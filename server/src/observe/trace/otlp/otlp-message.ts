/**
 * Bytes of one export. Sources: opentelemetry-proto, collector/trace/v1/trace_service.proto and trace/v1/trace.proto, in
 * protobuf encoding; OTLP specification, "JSON Protobuf Encoding". Pure.
 */
import { type GatherWriter, ProtoError, ProtoReader } from "@nereid/wire";
import type { OtlpAttribute, OtlpSpan } from "./otlp-spans.ts";

const SCOPE = { name: "triton-server" };

export interface OtlpExport {
  readonly resource: ReadonlyMap<string, string>;
  readonly spans: readonly OtlpSpan[];
}

/** The answer of a collector that took an export. */
export interface PartialSuccess {
  readonly rejectedSpans: number;
  readonly message: string;
}

export function exportJson({ resource, spans }: OtlpExport): string {
  const attributes = resourceAttributes(resource);
  return JSON.stringify({ resourceSpans: [{ resource: { attributes }, scopeSpans: [{ scope: SCOPE, spans }] }] });
}

/** Writes an ExportTraceServiceRequest. */
export function writeExport(writer: GatherWriter, { resource, spans }: OtlpExport): void {
  nested(writer, 10, () => {
    nested(writer, 10, () => {
      for (const attribute of resourceAttributes(resource)) writeAttribute(writer, 10, attribute);
    });
    nested(writer, 18, () => {
      nested(writer, 10, () => writer.stringField(10, SCOPE.name));
      for (const span of spans) nested(writer, 18, () => writeSpan(writer, span));
    });
  });
}

function writeSpan(writer: GatherWriter, span: OtlpSpan): void {
  writer.bytes(10, Buffer.from(span.traceId, "hex"));
  writer.bytes(18, Buffer.from(span.spanId, "hex"));
  writer.stringField(26, span.traceState ?? "");
  if (span.parentSpanId !== undefined) writer.bytes(34, Buffer.from(span.parentSpanId, "hex"));
  writer.stringField(42, span.name);
  writer.varint(48);
  writer.varint(span.kind);
  writeTime(writer, 57, span.startTimeUnixNano);
  writeTime(writer, 65, span.endTimeUnixNano);
  for (const attribute of span.attributes) writeAttribute(writer, 74, attribute);
  for (const { timeUnixNano, name } of span.events) {
    nested(writer, 90, () => {
      writeTime(writer, 9, timeUnixNano);
      writer.stringField(18, name);
    });
  }
}

function writeAttribute(writer: GatherWriter, tag: number, { key, value }: OtlpAttribute): void {
  nested(writer, tag, () => {
    writer.stringField(10, key);
    nested(writer, 18, () => {
      if ("stringValue" in value) writer.string(10, value.stringValue);
      else {
        writer.varint(24);
        writer.int64(BigInt(value.intValue));
      }
    });
  });
}

function writeTime(writer: GatherWriter, tag: number, nanoseconds: string): void {
  writer.varint(tag);
  writer.fixed64(BigInt(nanoseconds));
}

function nested(writer: GatherWriter, tag: number, write: () => void): void {
  writer.varint(tag);
  const mark = writer.begin();
  write();
  writer.end(mark);
}

function resourceAttributes(resource: ReadonlyMap<string, string>): OtlpAttribute[] {
  return [...resource].map(([key, value]) => ({ key, value: { stringValue: value } }));
}

/** Reads an ExportTraceServiceResponse. The export was taken, so an unreadable answer changes nothing. */
export function readPartialSuccess(bytes: Uint8Array): PartialSuccess {
  let [rejectedSpans, message] = [0, ""];
  readFields(bytes, (tag, reader) => {
    if (tag !== 10) return false;
    readFields(reader.view(), (inner, part) => {
      if (inner === 8) rejectedSpans = Number(part.int64());
      else if (inner === 18) message = part.string();
      else return false;
      return true;
    });
    return true;
  });
  return { rejectedSpans, message };
}

/** `partialSuccess` of the JSON form. */
export function readPartialSuccessJson(text: string): PartialSuccess {
  const { partialSuccess } = objectOf(parsedJson(text));
  const { rejectedSpans, errorMessage } = objectOf(partialSuccess);
  const count = Number(rejectedSpans ?? 0);
  return {
    rejectedSpans: Number.isSafeInteger(count) ? count : 0,
    message: typeof errorMessage === "string" ? errorMessage : "",
  };
}

export interface RpcStatus {
  readonly message: string;
  /** From a google.rpc.RetryInfo among the details. */
  readonly retryDelayMs: number | undefined;
}

const RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo";

/** Reads a google.rpc.Status: the body of a refusal over HTTP, and `grpc-status-details-bin`. */
export function readRpcStatus(bytes: Uint8Array): RpcStatus {
  let message = "";
  let retryDelayMs: number | undefined;
  readFields(bytes, (tag, reader) => {
    if (tag === 18) message = reader.string();
    else if (tag === 26) retryDelayMs = readRetryDetail(reader.view()) ?? retryDelayMs;
    else return false;
    return true;
  });
  return { message, retryDelayMs };
}

/** `google.protobuf.Any` of a RetryInfo, whose delay is a `google.protobuf.Duration`. */
function readRetryDetail(detail: Uint8Array): number | undefined {
  let [url, delayMs] = ["", 0];
  readFields(detail, (tag, reader) => {
    if (tag === 10) url = reader.string();
    else if (tag === 18) delayMs = readRetryDelay(reader.view());
    else return false;
    return true;
  });
  return url === RETRY_INFO ? delayMs : undefined;
}

function readRetryDelay(retryInfo: Uint8Array): number {
  let delayMs = 0;
  readFields(retryInfo, (tag, reader) => {
    if (tag !== 10) return false;
    readFields(reader.view(), (inner, part) => {
      if (inner === 8) delayMs += 1000 * Number(part.int64());
      else if (inner === 16) delayMs += Number(part.int64()) / 1e6;
      else return false;
      return true;
    });
    return true;
  });
  return Math.max(0, delayMs);
}

export function messageOfJson(text: string): string {
  const { message } = objectOf(parsedJson(text));
  return typeof message === "string" ? message : "";
}

/** Calls `read` with each tag; false: the field is skipped. Stops where the bytes are no message. */
function readFields(bytes: Uint8Array, read: (tag: number, reader: ProtoReader) => boolean): void {
  const reader = new ProtoReader(bytes);
  try {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) if (!read(tag, reader)) reader.skip(tag);
  } catch (error) {
    if (!(error instanceof ProtoError)) throw error;
  }
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
