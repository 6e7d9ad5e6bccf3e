/**
 * Everything that happened to the requests of an engine host since its last report, as columns: one frame per step,
 * whatever the number of sequences. The writing half runs in the host, `deliverReport` in the server.
 */
import { type ErrorCode, ServerError } from "../../core/server-error.ts";
import { type EngineStats, NUM_STATS, readStats, writeStats } from "../engine-stats.ts";
import type { FinishReason, Usage } from "../generate.ts";
import type { SequenceSink } from "../sequence.ts";
import { type FrameReader, FrameWriter } from "./frame.ts";
import { FINISH_REASONS, STEP } from "./messages.ts";

/** A list of numbers whose memory stays. */
class Column {
  values: Int32Array = new Int32Array(64);
  length = 0;

  push(value: number): void {
    if (this.length === this.values.length) {
      const values = new Int32Array(this.length * 2);
      values.set(this.values);
      this.values = values;
    }
    this.values[this.length++] = value;
  }

  /** What was pushed, once. */
  take(): Int32Array {
    const taken = this.values.subarray(0, this.length);
    this.length = 0;
    return taken;
  }
}

export class StepReport {
  readonly #writer = new FrameWriter();
  readonly #started = new Column();
  readonly #tokenOwners = new Column();
  readonly #tokens = new Column();
  /** The bits of 32-bit floats. */
  readonly #logProbs = new Column();
  readonly #float = new Float32Array(1);
  readonly #floatBits = new Int32Array(this.#float.buffer);
  readonly #stats = new Float64Array(NUM_STATS);
  #finished: { readonly id: number; readonly reason: FinishReason; readonly usage: Usage }[] = [];
  #failed: { readonly id: number; readonly error: ServerError }[] = [];

  /** Where the engine puts the results of request `id`; `onEnd` runs when it is over. */
  sink(id: number, onEnd: () => void): SequenceSink {
    return {
      started: () => this.#started.push(id),
      token: (token, logProb) => {
        this.#tokenOwners.push(id);
        this.#tokens.push(token);
        this.#float[0] = logProb;
        this.#logProbs.push(this.#floatBits[0] ?? 0);
      },
      finished: (reason, usage) => {
        this.#finished.push({ id, reason, usage });
        onEnd();
      },
      failed: (error) => {
        this.#failed.push({ id, error });
        onEnd();
      },
    };
  }

  /** The frame of all that was gathered; the next one starts empty. */
  take(stats: EngineStats): Uint8Array {
    const writer = this.#writer;
    writer.begin(STEP);
    writer.ints(this.#started.take());
    writer.ints(this.#tokenOwners.take());
    writer.ints(this.#tokens.take());
    writer.ints(this.#logProbs.take());
    writer.int(this.#finished.length);
    for (const { id, reason, usage } of this.#finished) writeFinished(writer, id, reason, usage);
    writer.int(this.#failed.length);
    for (const { id, error } of this.#failed) {
      writer.int(id);
      writer.text(error.code);
      writer.text(error.message);
    }
    writeStats(stats, this.#stats);
    for (const value of this.#stats) writer.double(value);
    this.#finished = [];
    this.#failed = [];
    return writer.end();
  }
}

/** Hands a report's contents to the sinks of its requests; a request that nobody knows any more is skipped. */
export function deliverReport(frame: FrameReader, sinkOf: (id: number) => SequenceSink | undefined): EngineStats {
  for (const id of frame.ints()) sinkOf(id)?.started();
  const owners = frame.ints();
  const tokens = frame.ints();
  const bits = frame.ints();
  const logProbs = new Float32Array(bits.buffer, bits.byteOffset, bits.length);
  for (let i = 0; i < owners.length; i++) sinkOf(owners[i] ?? 0)?.token(tokens[i] ?? 0, logProbs[i] ?? 0);
  for (let left = frame.int(); left > 0; left--) {
    const sink = sinkOf(frame.int());
    const reason = FINISH_REASONS[frame.int()] ?? "cancelled";
    sink?.finished(reason, readUsage(frame));
  }
  for (let left = frame.int(); left > 0; left--) {
    const sink = sinkOf(frame.int());
    const code = frame.text() as ErrorCode; // written by `take` from a ServerError
    sink?.failed(new ServerError(code, frame.text()));
  }
  const stats = new Float64Array(NUM_STATS);
  for (let i = 0; i < NUM_STATS; i++) stats[i] = frame.double();
  return readStats(stats);
}

function writeFinished(writer: FrameWriter, id: number, reason: FinishReason, usage: Usage): void {
  writer.int(id);
  writer.int(FINISH_REASONS.indexOf(reason));
  writer.int(usage.promptTokens);
  writer.int(usage.outputTokens);
  writer.int(usage.reusedBlocks);
  writer.int(usage.newBlocks);
  writer.double(usage.arrivalNs);
  writer.double(usage.firstScheduledNs);
  writer.double(usage.firstTokenNs);
  writer.double(usage.lastTokenNs);
}

function readUsage(frame: FrameReader): Usage {
  return {
    promptTokens: frame.int(),
    outputTokens: frame.int(),
    reusedBlocks: frame.int(),
    newBlocks: frame.int(),
    arrivalNs: frame.double(),
    firstScheduledNs: frame.double(),
    firstTokenNs: frame.double(),
    lastTokenNs: frame.double(),
  };
}
