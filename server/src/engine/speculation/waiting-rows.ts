/**
 * Rows of the model that a draft head has not read yet, by their cache slots: a row is read together with the token behind
 * it, which is known later. No device.
 */

interface WaitingRow {
  readonly token: number;
  readonly row: Float32Array;
}

/** Positions [first, end) of a sequence whose rows wait. */
export interface WaitingRun {
  readonly first: number;
  readonly end: number;
}

export class WaitingRows {
  readonly #blockSize: number;
  readonly #rows = new Map<number, WaitingRow>();

  constructor(blockSize: number) {
    this.#blockSize = blockSize;
  }

  get size(): number {
    return this.#rows.size;
  }

  slotOf(blockTable: Int32Array, position: number): number {
    return (blockTable[Math.floor(position / this.#blockSize)] ?? 0) * this.#blockSize + (position % this.#blockSize);
  }

  put(slot: number, token: number, row: Float32Array): void {
    this.#rows.set(slot, { token, row });
  }

  rowAt(slot: number): Float32Array | undefined {
    return this.#rows.get(slot)?.row;
  }

  tokenAt(slot: number): number | undefined {
    return this.#rows.get(slot)?.token;
  }

  /** The rows side by side that end with that of position `end - 1`. */
  runBefore(end: number, blockTable: Int32Array): WaitingRun {
    let first = end;
    while (first > 0 && this.#rows.has(this.slotOf(blockTable, first - 1))) first -= 1;
    return { first, end };
  }

  remove({ first, end }: WaitingRun, blockTable: Int32Array): void {
    for (let position = first; position < end; position++) this.#rows.delete(this.slotOf(blockTable, position));
  }
}
