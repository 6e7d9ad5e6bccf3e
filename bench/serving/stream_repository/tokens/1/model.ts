/**
 * Offers events by the clock: a timer that fires late makes up at once for what it missed, so the rate is the one asked for as
 * long as the reader keeps up. Each event says when it was due, so a late one counts as late wherever it waited.
 */
import { hrtime } from "node:process";

interface Numbers {
  readonly data: Int32Array;
}

interface TokenRequest {
  readonly inputs: { readonly COUNT: Numbers; readonly PERIOD_US: Numbers; readonly PHASE_US: Numbers };
  readonly signal: AbortSignal;
  send(outputs: { readonly DUE_US: Int32Array; readonly IDX: Int32Array }): Promise<void>;
}

interface Stream {
  readonly request: TokenRequest;
  readonly periodUs: number;
  readonly end: () => void;
  left: number;
  dueUs: number;
  index: number;
  /** Events that the reader has not taken yet. */
  behind: number;
}

const TICK_MS = 1;
const MAX_BEHIND = 64;
const US_PER_NS = 1000n;
/** Part of the machine's clock that an INT32 holds. */
const CLOCK_MASK = 0x7fff_ffff;

const streams = new Set<Stream>();
let timer: NodeJS.Timeout | undefined;

export function execute(request: TokenRequest): Promise<void> {
  const [left = 0] = request.inputs.COUNT.data;
  const [periodUs = 1] = request.inputs.PERIOD_US.data;
  const [phaseUs = 0] = request.inputs.PHASE_US.data;
  const dueUs = phaseUs + Math.ceil((nowUs() - phaseUs) / periodUs) * periodUs;
  return new Promise((resolve) => {
    const stream: Stream = { request, periodUs, left, dueUs, index: 0, behind: 0, end: () => leave(stream, resolve) };
    streams.add(stream);
    request.signal.addEventListener("abort", stream.end, { once: true });
    timer ??= setInterval(tick, TICK_MS);
  });
}

function leave(stream: Stream, resolve: () => void): void {
  if (!streams.delete(stream)) return;
  if (streams.size === 0) {
    clearInterval(timer);
    timer = undefined;
  }
  resolve();
}

function nowUs(): number {
  return Number(hrtime.bigint() / US_PER_NS);
}

function tick(): void {
  const now = nowUs();
  for (const stream of streams) emitDue(stream, now);
}

function emitDue(stream: Stream, now: number): void {
  while (stream.dueUs <= now && stream.left > 0 && stream.behind < MAX_BEHIND) {
    stream.behind += 1;
    const sent = stream.request.send({
      DUE_US: Int32Array.of(stream.dueUs & CLOCK_MASK),
      IDX: Int32Array.of(stream.index),
    });
    void sent.then(() => {
      stream.behind -= 1;
    });
    stream.dueUs += stream.periodUs;
    stream.index += 1;
    stream.left -= 1;
  }
  if (stream.left === 0) stream.end();
}
