/** Which instances of a model version are free. Passive instances never are. Lowest number first, as Triton picks. */
import type { ModelInstance } from "../backend/backend.ts";

export class InstancePool {
  readonly #idle: { readonly instance: ModelInstance; readonly rank: number }[];
  readonly #ranks: ReadonlyMap<ModelInstance, number>;

  constructor(instances: readonly ModelInstance[]) {
    this.#ranks = new Map(instances.map((instance, rank) => [instance, rank]));
    this.#idle = instances.map((instance, rank) => ({ instance, rank })).reverse();
  }

  get hasIdle(): boolean {
    return this.#idle.length > 0;
  }

  get size(): number {
    return this.#ranks.size;
  }

  acquire(): ModelInstance | undefined {
    return this.#idle.pop()?.instance;
  }

  release(instance: ModelInstance): void {
    const rank = this.#ranks.get(instance);
    if (rank === undefined) throw new Error(`instance '${instance.name}' does not belong to this pool`);
    this.#idle.push({ instance, rank });
    for (let i = this.#idle.length - 1; i > 0; i -= 1) {
      const [low, high] = [this.#idle[i - 1], this.#idle[i]];
      if (low === undefined || high === undefined || low.rank > high.rank) break;
      this.#idle[i - 1] = high;
      this.#idle[i] = low;
    }
  }
}
