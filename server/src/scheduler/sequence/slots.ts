/** Free slots of all instances. Lowest slot first, so that sequences spread over the instances. Pure. */

export interface Slot {
  /** Number of the instance. */
  readonly lane: number;
  readonly index: number;
}

interface Free {
  /** Slots from here on were never used. */
  fresh: number;
  /** Slots given back, lowest last. */
  readonly returned: number[];
  /** No slot of it is given out any more. */
  isRetired: boolean;
}

export class SlotPool {
  /** By number, in the order in which they were added. */
  readonly #lanes = new Map<number, Free>();
  readonly #slotsPerLane: number;
  #added = 0;

  constructor(lanes: number, slotsPerLane: number) {
    this.#slotsPerLane = slotsPerLane;
    for (let i = 0; i < lanes; i += 1) this.add();
  }

  /** Adds an instance and returns its number. */
  add(): number {
    const lane = this.#added;
    this.#added += 1;
    this.#lanes.set(lane, { fresh: 0, returned: [], isRetired: false });
    return lane;
  }

  /** Gives out no more slots of the instance. True: none is in use, and the instance is forgotten. */
  retire(lane: number): boolean {
    const free = this.#lanes.get(lane);
    if (free === undefined) return true;
    free.isRetired = true;
    return this.#forget(lane, free);
  }

  acquire(): Slot | undefined {
    let lane = -1;
    let index = this.#slotsPerLane;
    for (const [number, free] of this.#lanes) {
      const lowest = free.isRetired ? Number.POSITIVE_INFINITY : lowestOf(free);
      if (lowest >= index) continue;
      lane = number;
      index = lowest;
    }
    const free = this.#lanes.get(lane);
    if (free === undefined) return undefined;
    if (free.returned.length > 0) free.returned.pop();
    else free.fresh += 1;
    return { lane, index };
  }

  /** True: it was the last slot in use of a retired instance, which is forgotten. */
  release({ lane, index }: Slot): boolean {
    const free = this.#lanes.get(lane);
    if (free === undefined) throw new Error(`no lane ${lane} in this pool`);
    const { returned } = free;
    let at = returned.length;
    while (at > 0 && (returned[at - 1] ?? 0) < index) at -= 1;
    returned.splice(at, 0, index);
    return free.isRetired && this.#forget(lane, free);
  }

  #forget(lane: number, { fresh, returned }: Free): boolean {
    return fresh === returned.length && this.#lanes.delete(lane);
  }
}

function lowestOf({ returned, fresh }: Free): number {
  return returned.at(-1) ?? fresh;
}
