/**
 * The repeated int64 of a shape, packed or not (protobuf encoding, "Packed Repeated Fields": parsers must accept
 * both).
 */
import { MAX_DIMS } from "../limits.ts";
import type { GatherWriter } from "./gather-writer.ts";
import { ProtoError, type ProtoReader } from "./proto-reader.ts";

/** Reads the field at `tag` (wire type 0 = one dimension, 2 = packed) into `shape`. */
export function readShapeField(reader: ProtoReader, tag: number, shape: number[]): void {
  if ((tag & 7) === 0) {
    shape.push(Number(reader.int64()));
  } else {
    const outer = reader.enter();
    while (reader.pos < reader.end && shape.length <= MAX_DIMS) shape.push(Number(reader.int64()));
    reader.leave(outer);
  }
  if (shape.length > MAX_DIMS) throw new ProtoError(`${shape.length} dimensions or more, expected at most ${MAX_DIMS}`);
}

/** Writes the dimensions packed, nothing when there are none. */
export function writeShape(writer: GatherWriter, tag: number, shape: readonly number[]): void {
  if (shape.length === 0) return;
  writer.varint(tag);
  const mark = writer.begin();
  for (const dim of shape) writer.int64(dim);
  writer.end(mark);
}
