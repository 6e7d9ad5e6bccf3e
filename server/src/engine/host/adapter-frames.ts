/** How the adapter of a request travels in a frame. */
import type { AdapterChoice } from "../adapters/adapter-choice.ts";
import type { FrameReader, FrameWriter } from "./frame.ts";

/** Kinds travel as indices into this list, followed by the task id when the frame carries matrices. */
const KINDS = ["name", "path", "task"] as const;
const TASK = 2;
const TASK_WITH_MATRICES = 3;

export function writeAdapter(writer: FrameWriter, choice: AdapterChoice): void {
  if (choice.kind !== "task") {
    writer.int(KINDS.indexOf(choice.kind));
    writer.text(choice.text);
    return;
  }
  const { id, matrices } = choice;
  writer.int(matrices === undefined ? TASK : TASK_WITH_MATRICES);
  writer.text(String(id));
  if (matrices === undefined) return;
  writer.int(matrices.numRows);
  writer.floats(matrices.weights);
  writer.ints(matrices.config);
}

export function readAdapter(reader: FrameReader): AdapterChoice {
  const place = reader.int();
  const text = reader.text();
  const kind = KINDS[place];
  if (kind === "name" || kind === "path") return { kind, text };
  const id = BigInt(text);
  if (place !== TASK_WITH_MATRICES) return { kind: "task", id, matrices: undefined };
  return { kind: "task", id, matrices: { numRows: reader.int(), weights: reader.floats(), config: reader.ints() } };
}
