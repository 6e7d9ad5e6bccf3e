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
}

export class SlotPool {
  readonly #lanes: readonly Free[];
  readonly #slotsPerLane: number;

  constructor(lanes: number, slotsPerLane: number) {
    this.#lanes = Array.from({ length: lanes }, () => ({ fresh: 0, returned: [] }));
    this.#slotsPerLane = slotsPerLane;
  }

  acquire(): Slot | undefined {
    let lane = -1;
    let index = this.#slotsPerLane;
    for (let i = 0; i < this.#lanes.length; i += 1) {
      const lowest = lowestOf(this.#lanes[i]);
      if (lowest >= index) continue;
      lane = i;
      index = lowest;
    }
    const free = this.#lanes[lane];
    if (free === undefined) return undefined;
    if (free.returned.length > 0) free.returned.pop();
    else free.fresh += 1;
    return { lane, index };
  }

  release({ lane, index }: Slot): void {
    const returned = this.#lanes[lane]?.returned;
    if (returned === undefined) throw new Error(`no lane ${lane} in this pool`);
    let at = returned.length;
    while (at > 0 && (returned[at - 1] ?? 0) < index) at -= 1;
    returned.splice(at, 0, index);
  }
}

function lowestOf(free: Free | undefined): number {
  return free?.returned.at(-1) ?? free?.fresh ?? Number.POSITIVE_INFINITY;
}
