/**
 * Frames over TCP between a leader and ranks on other machines. A rank sends its number and gets its load task. It then
 * reports its GPU, joins the group, reports ready, and receives steps.
 */
import type { Socket } from "node:net";
import { type FrameReader, FrameSplitter, FrameWriter } from "../host/frame.ts";
import type { RankTask } from "./follow.ts";

/** Both sides must be of the same release where this differs. */
export const RANK_PROTOCOL = 2;

export const RANK_FRAMES = {
  hello: 1, // protocol, rank, number of ranks
  task: 2, // JSON
  opened: 3,
  join: 4, // ids, as words each
  ready: 5, // number of blocks
  failed: 6, // text
  step: 7, // words of a step, or of an adapter
  close: 8,
} as const;

export function helloFrame(rank: number, worldSize: number): Uint8Array {
  const writer = new FrameWriter();
  writer.begin(RANK_FRAMES.hello);
  for (const value of [RANK_PROTOCOL, rank, worldSize]) writer.int(value);
  return writer.end();
}

export function textFrame(kind: number, text: string): Uint8Array {
  const writer = new FrameWriter();
  writer.begin(kind);
  writer.text(text);
  return writer.end();
}

export function plainFrame(kind: number, ...values: readonly number[]): Uint8Array {
  const writer = new FrameWriter();
  writer.begin(kind);
  for (const value of values) writer.int(value);
  return writer.end();
}

export function stepFrame(words: Int32Array): Uint8Array {
  const writer = new FrameWriter();
  writer.begin(RANK_FRAMES.step);
  writer.ints(words);
  return writer.end();
}

export function joinFrame(ids: readonly Uint8Array[]): Uint8Array {
  const writer = new FrameWriter();
  writer.begin(RANK_FRAMES.join);
  writer.int(ids.length);
  for (const id of ids) writer.ints(Int32Array.from(id));
  return writer.end();
}

export function readIds(frame: FrameReader): readonly Uint8Array[] {
  return Array.from({ length: frame.int() }, () => Uint8Array.from(frame.ints()));
}

export function readTask(frame: FrameReader): RankTask {
  return JSON.parse(frame.text()) as RankTask;
}

/** A stream that is none of frames ends the connection. */
export function onFrames(socket: Socket, onFrame: (frame: FrameReader) => void): void {
  const splitter = new FrameSplitter(onFrame);
  socket.setNoDelay(true);
  socket.on("data", (bytes: Buffer) => {
    try {
      splitter.push(bytes);
    } catch (error) {
      socket.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  });
}
