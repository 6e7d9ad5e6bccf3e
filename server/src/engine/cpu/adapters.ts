/** The adapters in the memory of the CPU device, by number. It decides nothing: the caller that loads one also unloads it. */
import type { CpuDevice } from "../../device/cpu/cpu-device.ts";
import type { LoraAdapter, LoraTargets } from "../../formats/lora/lora-adapter.ts";
import { type AdapterWeights, placeAdapter } from "../../models/cpu/lora.ts";
import { checkAdapters } from "../request/check-adapters.ts";
import type { AdapterMemory, StepSequence } from "../step-runner.ts";

export class CpuAdapters implements AdapterMemory {
  readonly targets: LoraTargets;
  readonly #device: CpuDevice;
  readonly #loaded = new Map<number, AdapterWeights>();
  #nextId = 1;
  #isClosed = false;

  constructor(device: CpuDevice, targets: LoraTargets) {
    this.#device = device;
    this.targets = targets;
  }

  get loaded(): ReadonlyMap<number, AdapterWeights> {
    return this.#loaded;
  }

  async load(adapter: LoraAdapter): Promise<number> {
    if (this.#isClosed) throw new Error("the step runner is closed");
    const id = this.#nextId++;
    this.#loaded.set(id, placeAdapter(this.#device, adapter));
    return id;
  }

  unload(id: number): void {
    this.#loaded.get(id)?.close();
    this.#loaded.delete(id);
  }

  /** @throws Error naming the first sequence whose adapter is not there */
  check(sequences: readonly StepSequence[]): void {
    checkAdapters(sequences, this.#loaded);
  }

  close(): void {
    this.#isClosed = true;
    for (const id of [...this.#loaded.keys()]) this.unload(id);
  }
}
