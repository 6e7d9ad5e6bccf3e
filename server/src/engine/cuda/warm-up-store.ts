/** Keeps the GEMM algorithms of a runner, and the names of the steps that it warmed up, for the next start of its model. */
import { userCacheFolder } from "../../device/cuda/cache-folder.ts";
import type { CublasLtGemms } from "../../device/cuda/dense-gemm.ts";
import { WarmUpCache } from "../../device/cuda/warm-up-cache.ts";

/** Algorithms are chosen several at a time: one write serves them. */
const SAVE_DELAY_MS = 1000;

export interface WarmUpStoreOptions {
  readonly folder?: string | undefined;
  /** False: everything is measured anew, and replaces what was kept. */
  readonly adopts?: boolean | undefined;
}

export class WarmUpStore {
  readonly #folder: string;
  readonly #adopts: boolean;
  #cache: WarmUpCache | undefined;
  #gemms: Pick<CublasLtGemms, "all"> | undefined;
  #steps: readonly string[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor({ folder = userCacheFolder("warm-up"), adopts = true }: WarmUpStoreOptions = {}) {
    this.#folder = folder;
    this.#adopts = adopts;
  }

  /** Steps that an earlier start has run. */
  get steps(): readonly string[] {
    return this.#steps;
  }

  /** Adopts what an earlier start with this key chose, and keeps what is chosen from now on. `key`: plain data. */
  open(key: unknown, gemms: Pick<CublasLtGemms, "all" | "adopt" | "onMeasured">): void {
    this.#cache = new WarmUpCache(key, this.#folder);
    this.#gemms = gemms;
    if (this.#adopts) {
      const record = this.#cache.read();
      this.#steps = record.steps;
      gemms.adopt(record.gemms);
    }
    gemms.onMeasured = () => this.#saveSoon();
  }

  /** All steps that need no measurement any more. */
  save(steps: readonly string[] = this.#steps): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#steps = steps;
    if (this.#gemms !== undefined) this.#cache?.write({ gemms: this.#gemms.all, steps });
  }

  #saveSoon(): void {
    this.#timer ??= setTimeout(() => this.save(), SAVE_DELAY_MS).unref();
  }
}
