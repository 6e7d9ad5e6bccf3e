/**
 * Detects the content of `model.plan`: an ONNX model with a leading Nereid note, or a TensorRT engine. The note is a
 * metadata entry (onnx.proto, `metadata_props`) written first, so the first bytes decide. It knows no folder.
 */
import { open } from "node:fs/promises";
import { readFields, textOf } from "../protobuf/reader.ts";
import { messageField, type Part } from "../protobuf/writer.ts";
import { entryParts } from "./writer.ts";

export type SizesByInput = Readonly<Record<string, readonly number[]>>;

/** Build options recorded in the file: shapes by input. */
export interface PlanNote {
  readonly formatVersion: number;
  readonly precision: readonly string[];
  readonly min: SizesByInput;
  readonly opt: SizesByInput;
  readonly max: SizesByInput;
}

export type PlanContent =
  | { readonly kind: "nereid"; readonly note: PlanNote }
  | { readonly kind: "nvidia" }
  | { readonly kind: "other" };

export const PLAN_FORMAT_VERSION = 1;
const KEY = "nereid.plan";
const METADATA_FIELD = 14;
const MODEL_TAG: number = METADATA_FIELD * 8 + 2;
/** A shape takes some fifty bytes, and no model has a thousand inputs. */
const MAX_NOTE_BYTES = 65_536;
/** Magic numbers of serialized TensorRT engines, in both byte orders. */
const NVIDIA_MAGIC: ReadonlySet<string> = new Set(["ptrt", "trtp", "ftrt", "trtf"]);

/** Bytes to write before the fields of a model. */
export function planNoteParts(note: PlanNote): Part[] {
  return messageField(METADATA_FIELD, entryParts(KEY, JSON.stringify(note)));
}

/** @throws Error when the file cannot be read */
export async function readPlan(path: string): Promise<PlanContent> {
  const file = await open(path, "r");
  try {
    const buffer = new Uint8Array(MAX_NOTE_BYTES);
    const { bytesRead } = await file.read(buffer, 0, MAX_NOTE_BYTES, 0);
    return planContent(buffer.subarray(0, bytesRead));
  } finally {
    await file.close();
  }
}

/** Classifies a file by its first bytes. */
export function planContent(start: Uint8Array): PlanContent {
  if (NVIDIA_MAGIC.has(Buffer.from(start.subarray(0, 4)).toString("latin1"))) return { kind: "nvidia" };
  const note = noteOf(start);
  return note === undefined ? { kind: "other" } : { kind: "nereid", note };
}

function noteOf(start: Uint8Array): PlanNote | undefined {
  if (start[0] !== MODEL_TAG) return undefined;
  let length = 0;
  let at = 1;
  for (let scale = 1; at < 5; scale *= 128) {
    const byte = start[at++] ?? 0;
    length += (byte % 128) * scale;
    if (byte < 128) break;
  }
  if (length > start.byteLength - at) return undefined;
  try {
    const fields = readFields(start.subarray(at, at + length));
    const text = (wanted: number): string => fields.filter(({ number }) => number === wanted).map(textOf)[0] ?? "";
    return text(1) === KEY ? checkedNote(JSON.parse(text(2))) : undefined;
  } catch {
    return undefined; // a broken note is treated as absent
  }
}

function checkedNote(value: unknown): PlanNote | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { formatVersion, precision, min, opt, max } = value as Partial<Record<keyof PlanNote, unknown>>;
  if (typeof formatVersion !== "number" || !Array.isArray(precision)) return undefined;
  if (!isSizes(min) || !isSizes(opt) || !isSizes(max)) return undefined;
  return { formatVersion, precision: precision.map(String), min, opt, max };
}

function isSizes(value: unknown): value is SizesByInput {
  if (typeof value !== "object" || value === null) return false;
  return Object.values(value).every((sizes) => Array.isArray(sizes) && sizes.every(Number.isSafeInteger));
}
