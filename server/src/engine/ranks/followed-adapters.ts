/**
 * The adapters of a rank that is led: put together of the frames that come and loaded beside steps, as the leader does. A
 * step that names one waits for it.
 */
import type { LoraChange } from "../../formats/lora/lora-adapter.ts";
import type { AdapterMemory, StepInput } from "../step-runner.ts";
import type { AdapterFrame } from "./adapter-frame.ts";

export class FollowedAdapters {
  readonly #memory: AdapterMemory | undefined;
  #coming: { readonly id: number; readonly numChanges: number; readonly changes: LoraChange[] } | undefined;
  #loads: Promise<void> = Promise.resolve();
  #numLoading = 0;
  #failure: unknown;

  constructor(memory: AdapterMemory | undefined) {
    this.#memory = memory;
  }

  get isLoading(): boolean {
    return this.#numLoading > 0;
  }

  /** @throws Error with why one could not be loaded */
  async take(frame: AdapterFrame): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    if (frame.kind === "unload") {
      await this.#loads;
      this.#memory?.unload(frame.id);
      return;
    }
    if (frame.kind === "load") this.#coming = { ...frame, changes: [] };
    else this.#coming?.changes.push(frame.change);
    this.#loadWhole();
  }

  /** @throws Error with why one could not be loaded */
  async ready({ sequences }: Pick<StepInput, "sequences">): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.isLoading && sequences.some(({ adapter }) => adapter !== undefined)) await this.#loads;
  }

  #loadWhole(): void {
    const { id, numChanges, changes } = this.#coming ?? { id: 0, numChanges: -1, changes: [] };
    if (changes.length !== numChanges) return;
    this.#coming = undefined;
    this.#numLoading += 1;
    this.#loads = this.#loads.then(() => this.#load(id, changes));
    this.#loads.catch((error: unknown) => {
      this.#failure = error;
    });
  }

  async #load(id: number, changes: readonly LoraChange[]): Promise<void> {
    const own = await this.#memory?.load({ changes }).finally(() => {
      this.#numLoading -= 1;
    });
    if (own !== id) throw new Error(`adapter ${id} of the leader is number ${own} here: they must come in one order`);
  }
}
