/** Adapters of a model that several GPUs run: the leader's part is placed first, and then every other rank is sent its own. */
import type { LoraAdapter, LoraTargets } from "../../formats/lora/lora-adapter.ts";
import type { AdapterShares } from "../../models/shard/rank-lora.ts";
import type { AdapterMemory } from "../step-runner.ts";
import { frameAdapter, frameUnload } from "./adapter-frame.ts";
import type { Follower } from "./follower.ts";

const LEADER = 0;

export class RankedAdapters implements AdapterMemory {
  readonly targets: LoraTargets;
  readonly #own: AdapterMemory;
  readonly #shares: AdapterShares;
  readonly #followers: readonly Pick<Follower, "rank" | "send">[];

  /** `own`: of the leader, which takes parts of adapters. */
  constructor(own: AdapterMemory, shares: AdapterShares, followers: readonly Pick<Follower, "rank" | "send">[]) {
    this.targets = own.targets;
    this.#own = own;
    this.#shares = shares;
    this.#followers = followers;
  }

  /** On the GPU that takes most of it. */
  bytesOf(adapter: LoraAdapter): number {
    return Math.max(...this.#shares.outlines(adapter).map((part) => this.#own.bytesOf?.(part) ?? 0));
  }

  /** One after the other: all ranks number adapters in the order in which they come. */
  async load(adapter: LoraAdapter): Promise<number> {
    // Adapters that do not fit the leader's memory are refused. If another rank then lacks memory, the group ends.
    const id = await this.#own.load(this.#shares.partOf(adapter, LEADER));
    for (const follower of this.#followers) {
      for (const words of frameAdapter(id, this.#shares.partOf(adapter, follower.rank))) follower.send(words);
    }
    return id;
  }

  unload(id: number): void {
    for (const follower of this.#followers) follower.send(frameUnload(id));
    this.#own.unload(id);
  }
}
