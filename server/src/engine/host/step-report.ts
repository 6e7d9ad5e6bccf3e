/**
 * Columnar report of everything that happened to the requests of an engine host since the last report: one frame per
 * step for any number of sequences. The writer runs in the host, `deliverReport` in the server.
 */
import { type ErrorCode, ServerError } from "../../core/server-error.ts";
import { type EngineStats, NUM_STATS, readStats, writeStats } from "../engine-stats.ts";
import type { BeamResult, FinishReason, GeneratedExtras, Usage } from "../request/generate.ts";
import { EXTRA_KINDS } from "../request/generated-extras.ts";
import type { SequenceSink } from "../request/sequence.ts";
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

  /** Takes the pushed values and clears them. */
  take(): Int32Array {
    const taken = this.values.subarray(0, this.length);
    this.length = 0;
    return taken;
  }
}

interface Extra {
  readonly id: number;
  readonly kind: keyof GeneratedExtras;
  readonly values: Float32Array | Int32Array;
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
  #extras: Extra[] = [];
  #beams: { readonly id: number; readonly results: readonly BeamResult[] }[] = [];
  #finished: { readonly id: number; readonly reason: FinishReason; readonly usage: Usage }[] = [];
  #failed: { readonly id: number; readonly error: ServerError }[] = [];

  /** The sink for the results of request `id`; `onEnd` runs when it is over. */
  sink(id: number, onEnd: () => void): SequenceSink {
    return {
      started: () => this.#started.push(id),
      token: (token, logProb) => {
        this.#tokenOwners.push(id);
        this.#tokens.push(token);
        this.#float[0] = logProb;
        this.#logProbs.push(this.#floatBits[0] ?? 0);
      },
      extra: (kind, values) => {
        this.#extras.push({ id, kind, values });
      },
      beams: (results) => {
        this.#beams.push({ id, results });
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

  /** The frame of all that was gathered; the next one starts empty. `blocks`: "" = as before. */
  take(stats: EngineStats, blocks = ""): Uint8Array {
    const writer = this.#writer;
    writer.begin(STEP);
    writer.ints(this.#started.take());
    writer.ints(this.#tokenOwners.take());
    writer.ints(this.#tokens.take());
    writer.ints(this.#logProbs.take());
    writer.int(this.#extras.length);
    for (const extra of this.#extras) writeExtra(writer, extra);
    writer.int(this.#beams.length);
    for (const { id, results } of this.#beams) writeBeams(writer, id, results);
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
    writer.text(blocks);
    this.#extras = [];
    this.#beams = [];
    this.#finished = [];
    this.#failed = [];
    return writer.end();
  }
}

/** Delivers a report to the sinks of its requests; unknown requests are skipped. */
export function deliverReport(
  frame: FrameReader,
  sinkOf: (id: number) => SequenceSink | undefined,
): { readonly stats: EngineStats; readonly blocks: string } {
  for (const id of frame.ints()) sinkOf(id)?.started();
  const owners = frame.ints();
  const tokens = frame.ints();
  const bits = frame.ints();
  const logProbs = new Float32Array(bits.buffer, bits.byteOffset, bits.length);
  for (let i = 0; i < owners.length; i++) sinkOf(owners[i] ?? 0)?.token(tokens[i] ?? 0, logProbs[i] ?? 0);
  for (let left = frame.int(); left > 0; left--) deliverExtra(frame, sinkOf(frame.int()));
  for (let left = frame.int(); left > 0; left--) deliverBeams(frame, sinkOf(frame.int()));
  for (let left = frame.int(); left > 0; left--) {
    const sink = sinkOf(frame.int());
    const reason = FINISH_REASONS[frame.int()] ?? "cancelled";
    const usage = readUsage(frame); // read even without a sink: more columns follow in the frame
    sink?.finished(reason, usage);
  }
  for (let left = frame.int(); left > 0; left--) {
    const sink = sinkOf(frame.int());
    const code = frame.text() as ErrorCode; // written by `take` from a ServerError
    const message = frame.text();
    sink?.failed(new ServerError(code, message));
  }
  const stats = new Float64Array(NUM_STATS);
  for (let i = 0; i < NUM_STATS; i++) stats[i] = frame.double();
  return { stats: readStats(stats), blocks: frame.text() };
}

function writeExtra(writer: FrameWriter, { id, kind, values }: Extra): void {
  writer.int(id);
  writer.int(EXTRA_KINDS.indexOf(kind));
  if (values instanceof Int32Array) writer.ints(values);
  else writer.floats(values);
}

function deliverExtra(frame: FrameReader, sink: SequenceSink | undefined): void {
  const kind = EXTRA_KINDS[frame.int()];
  if (kind === undefined) throw new Error("step report: a list of unknown kind");
  if (kind === "topIds" || kind === "promptTopIds") {
    const ids = frame.ints(); // read whether or not anybody wants them
    sink?.extra(kind, ids);
  } else {
    const values = frame.floats();
    sink?.extra(kind, values);
  }
}

function writeBeams(writer: FrameWriter, id: number, results: readonly BeamResult[]): void {
  writer.int(id);
  writer.int(results.length);
  for (const { tokenIds, logProbs, cumLogProb, logits } of results) {
    writer.ints(tokenIds);
    writer.floats(logProbs);
    writer.double(cumLogProb);
    writer.floats(logits);
  }
}

/** The order of the fields is that of `writeBeams`. */
function deliverBeams(frame: FrameReader, sink: SequenceSink | undefined): void {
  const results = Array.from({ length: frame.int() }, () => ({
    tokenIds: frame.ints(),
    logProbs: frame.floats(),
    cumLogProb: frame.double(),
    logits: frame.floats(),
  }));
  sink?.beams(results);
}

function writeFinished(writer: FrameWriter, id: number, reason: FinishReason, usage: Usage): void {
  writer.int(id);
  writer.int(FINISH_REASONS.indexOf(reason));
  writer.int(usage.promptTokens);
  writer.int(usage.outputTokens);
  writer.int(usage.reusedBlocks);
  writer.int(usage.newBlocks);
  writer.int(usage.draftTokens);
  writer.int(usage.acceptedDraftTokens);
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
    draftTokens: frame.int(),
    acceptedDraftTokens: frame.int(),
    arrivalNs: frame.double(),
    firstScheduledNs: frame.double(),
    firstTokenNs: frame.double(),
    lastTokenNs: frame.double(),
  };
}
