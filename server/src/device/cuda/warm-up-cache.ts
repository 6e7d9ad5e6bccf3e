/**
 * Results of one start of a model on a GPU for the next: the algorithms of its GEMMs, and the steps that ran. The key
 * is everything that they depend on: model shape, GPU, driver, library. A missing or broken file costs time, nothing
 * else.
 */
import { createHash } from "node:crypto";
import { CacheFolder, userCacheFolder } from "./cache-folder.ts";
import type { KnownGemm } from "./dense-gemm.ts";

export interface WarmUpRecord {
  readonly gemms: readonly KnownGemm[];
  /** Names of steps whose GEMMs are all among these. */
  readonly steps: readonly string[];
}

const EMPTY: WarmUpRecord = { gemms: [], steps: [] };
/** Format of the file; another one is not read. */
const FORMAT = 1;

export class WarmUpCache {
  readonly #folder: CacheFolder;
  readonly #name: string;

  /** `key`: plain data. */
  constructor(key: unknown, folder: string = userCacheFolder("warm-up")) {
    this.#folder = new CacheFolder(folder);
    const digest = createHash("sha256").update(JSON.stringify([FORMAT, key]));
    this.#name = `${digest.digest("hex")}.json`;
  }

  read(): WarmUpRecord {
    const bytes = this.#folder.get(this.#name);
    if (bytes === undefined) return EMPTY;
    try {
      return recordOf(JSON.parse(Buffer.from(bytes).toString()));
    } catch {
      return EMPTY;
    }
  }

  write(record: WarmUpRecord): void {
    this.#folder.set(this.#name, JSON.stringify(record));
  }
}

/** Entries that were changed are left out. */
function recordOf(value: unknown): WarmUpRecord {
  const { gemms, steps } = value as { readonly gemms?: unknown; readonly steps?: unknown };
  if (!Array.isArray(gemms) || !Array.isArray(steps)) return EMPTY;
  return { gemms: gemms.filter(isKnownGemm), steps: steps.filter((step) => typeof step === "string") };
}

function isKnownGemm(value: unknown): value is KnownGemm {
  const { shape, algorithm, workspaceBytes } = value as { readonly [Field in keyof KnownGemm]?: unknown };
  if (typeof shape !== "string" || typeof algorithm !== "string" || !/^([0-9a-f]{2})+$/.test(algorithm)) return false;
  return Number.isSafeInteger(workspaceBytes);
}
