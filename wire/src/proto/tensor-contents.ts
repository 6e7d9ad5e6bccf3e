/**
 * InferTensorContents of KServe V2 (grpc_service.proto): typed tensor data as the little-endian bytes of a tensor.
 * Accepts packed and single values (protobuf encoding, "Packed Repeated Fields"); one packed run of floats is returned
 * as a view. Knows datatypes, not shapes.
 */
import type { Datatype } from "../datatype.ts";
import { ByteBuilder } from "./byte-builder.ts";
import type { ProtoReader } from "./proto-reader.ts";

/** Datatypes of the members of InferTensorContents. */
export type ContentsKind = "BOOL" | "INT32" | "INT64" | "UINT32" | "UINT64" | "FP32" | "FP64" | "BYTES";

/** One member that has elements. `data` has the width of the kind; BYTES elements have a 4-byte length in front. */
export interface TypedContents {
  readonly kind: ContentsKind;
  readonly data: Uint8Array;
}

/** By field number. */
const KINDS: readonly (ContentsKind | undefined)[] = [
  undefined,
  "BOOL",
  "INT32",
  "INT64",
  "UINT32",
  "UINT64",
  "FP32",
  "FP64",
  "BYTES",
];

/** The wire type of one value that is not packed. */
const SINGLE_WIRE_TYPE: Readonly<Record<ContentsKind, number>> = {
  BOOL: 0,
  INT32: 0,
  INT64: 0,
  UINT32: 0,
  UINT64: 0,
  FP32: 5,
  FP64: 1,
  BYTES: 2,
};

/** Reads the message at the reader's position; repeated messages merge (protobuf encoding, "Last One Wins"). */
export function readContents(reader: ProtoReader, members: Map<ContentsKind, ByteBuilder>): void {
  const outer = reader.enter();
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    const kind = KINDS[tag >>> 3];
    if (kind === undefined || !readMember(reader, kind, tag & 7, members)) reader.skip(tag);
  }
  reader.leave(outer);
}

/** The members that have elements, in the order of their field numbers. */
export function typedContents(members: ReadonlyMap<ContentsKind, ByteBuilder>): readonly TypedContents[] {
  const found: TypedContents[] = [];
  for (const kind of KINDS) {
    const builder = kind === undefined ? undefined : members.get(kind);
    if (kind !== undefined && builder !== undefined && builder.length > 0) found.push({ kind, data: builder.finish() });
  }
  return found;
}

function readMember(
  reader: ProtoReader,
  kind: ContentsKind,
  wireType: number,
  members: Map<ContentsKind, ByteBuilder>,
): boolean {
  if (wireType !== 2 && wireType !== SINGLE_WIRE_TYPE[kind]) return false;
  let builder = members.get(kind);
  if (builder === undefined) {
    builder = new ByteBuilder();
    members.set(kind, builder);
  }
  if (kind === "BYTES") builder.addElement(reader.view());
  else if (kind === "FP32" || kind === "FP64") builder.addRun(reader.fixed(kind === "FP32" ? 4 : 8, wireType === 2));
  else if (wireType === 2) readPacked(reader, kind, builder);
  else readVarint(reader, kind, builder);
  return true;
}

function readPacked(reader: ProtoReader, kind: ContentsKind, builder: ByteBuilder): void {
  const outer = reader.enter();
  builder.reserve(countVarints(reader.bytes, reader.pos, reader.end) * widthOf(kind));
  while (reader.pos < reader.end) readVarint(reader, kind, builder);
  reader.leave(outer);
}

function readVarint(reader: ProtoReader, kind: ContentsKind, builder: ByteBuilder): void {
  reader.uint32();
  if (kind === "BOOL") builder.addByte((reader.low | reader.high) === 0 ? 0 : 1);
  else {
    builder.addUint32(reader.low);
    if (kind === "INT64" || kind === "UINT64") builder.addUint32(reader.high);
  }
}

function widthOf(kind: ContentsKind): number {
  if (kind === "BOOL") return 1;
  return kind === "INT64" || kind === "UINT64" ? 8 : 4;
}

function countVarints(bytes: Uint8Array, start: number, end: number): number {
  let count = 0;
  for (let at = start; at < end; at++) if ((bytes[at] ?? 0) < 0x80) count += 1;
  return count;
}

/** The contents as data of that datatype, small integers narrowed; undefined when the member cannot hold the datatype. */
export function contentsAs(contents: TypedContents, datatype: Datatype): Uint8Array | undefined {
  const { kind, data } = contents;
  if (kind === datatype) return data;
  if (kind === "INT32" && (datatype === "INT8" || datatype === "INT16"))
    return narrow(data, datatype === "INT8" ? 1 : 2);
  if (kind === "UINT32" && (datatype === "UINT8" || datatype === "UINT16")) {
    return narrow(data, datatype === "UINT8" ? 1 : 2);
  }
  return undefined;
}

/** Keeps the low `width` bytes of each four. */
function narrow(data: Uint8Array, width: 1 | 2): Uint8Array {
  const out = new Uint8Array((data.length / 4) * width);
  for (let from = 0, to = 0; from < data.length; from += 4) {
    out[to++] = data[from] ?? 0;
    if (width === 2) out[to++] = data[from + 1] ?? 0;
  }
  return out;
}
