/**
 * Inflates gzip and deflate data in steps (RFC 1952, RFC 1950), for every protocol. Each step is counted before it is kept, and few
 * bodies inflate at one time: a bomb of 64 KB holds its limit only as long as it takes to notice it, and a hundred side by side
 * hold no more than a few of them.
 */
import { createGunzip, createInflate } from "node:zlib";
import { discardBytes } from "./discard-bytes.ts";

export type Deflated = "gzip" | "deflate";

/** Counts the inflated bytes. */
export interface Share {
  /** @throws ServerError unavailable when it is too much */
  hold(numBytes: number): void;
  giveBack(numBytes: number): void;
}

/** Bodies are a few KiB or many MiB: small steps would cost the large ones a hundred thousand pieces. */
const STEP_BYTES: number = 64 * 1024;
/** As many as Node has threads for them. */
const MAX_TOGETHER = 4;

/** Inflated data has more bytes than it may. */
export class InflatedTooLarge extends Error {}

/** Turns of a limited number of tasks. */
class Turns {
  #free = MAX_TOGETHER;
  readonly #waiting: (() => void)[] = [];

  async take(): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}

const turns = new Turns();

/**
 * The inflated bytes, counted in `share` when this resolves. Data that fails is counted no more.
 * @throws InflatedTooLarge beyond `maxBytes` @throws ServerError unavailable @throws Error for other data than `kind`
 */
export async function inflateInSteps(
  bytes: Uint8Array,
  kind: Deflated,
  maxBytes: number,
  share: Share,
): Promise<Buffer> {
  await turns.take();
  const pieces: Buffer[] = [];
  let numBytes = 0;
  try {
    for await (const piece of inflated(bytes, kind)) {
      if (numBytes + piece.length > maxBytes) throw new InflatedTooLarge();
      share.hold(piece.length);
      numBytes += piece.length;
      pieces.push(piece);
    }
    return join(pieces, numBytes, share);
  } catch (error) {
    share.giveBack(numBytes);
    for (const piece of pieces) discardBytes(piece);
    throw error;
  } finally {
    turns.give();
  }
}

function inflated(bytes: Uint8Array, kind: Deflated): AsyncIterable<Buffer> {
  const options = { chunkSize: STEP_BYTES };
  const stream = kind === "gzip" ? createGunzip(options) : createInflate(options);
  stream.end(bytes);
  return stream;
}

/** The copy counts too, while there are both. */
function join(pieces: readonly Buffer[], numBytes: number, share: Share): Buffer {
  const [only] = pieces;
  if (only !== undefined && pieces.length === 1) return only;
  share.hold(numBytes);
  const whole = Buffer.concat(pieces, numBytes);
  for (const piece of pieces) discardBytes(piece);
  share.giveBack(numBytes);
  return whole;
}
