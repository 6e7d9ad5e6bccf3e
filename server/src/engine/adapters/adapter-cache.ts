/**
 * The adapters in a device's memory, up to a limit: those in use stay, of the others the one used longest ago goes first. An
 * adapter that does not fit waits until one is no longer in use. It knows neither sequences nor files.
 */
import { createHash } from "node:crypto";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { type LoraAdapter, loraBytes } from "../../formats/lora/lora-adapter.ts";
import type { AdapterMemory } from "../step-runner.ts";

/** An adapter with holders. */
export interface HeldAdapter {
  /** By which steps name it. */
  readonly id: number;
  /** Tells its cache blocks from those of other adapters, also after it went and came again. */
  readonly salt: string;
}

export interface AdapterLimits {
  readonly maxBytes: number;
  readonly maxRank: number;
}

interface Entry {
  readonly key: string;
  numUsers: number;
  numBytes: number;
  /** Undefined until it is in memory. */
  held: HeldAdapter | undefined;
  loaded: Promise<HeldAdapter>;
}

export class AdapterCache {
  readonly #memory: AdapterMemory;
  readonly #limits: AdapterLimits;
  /** The one used longest ago first. */
  readonly #entries = new Map<string, Entry>();
  #numBytes = 0;
  /** The last queued load. Loads run one at a time, so none overtakes a load that waits for room. */
  #queue: Promise<unknown> = Promise.resolve();
  #onRelease: (() => void) | undefined;
  #isClosed = false;

  constructor(memory: AdapterMemory, limits: AdapterLimits) {
    this.#memory = memory;
    this.#limits = limits;
  }

  get numBytes(): number {
    return this.#numBytes;
  }

  /** Keys of what is in memory or on its way, the one used longest ago first. */
  get keys(): readonly string[] {
    return [...this.#entries.keys()];
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** Holds an adapter, which `read` gives when it is not here. Each call that resolves needs a `release`. */
  async acquire(key: string, read: () => Promise<LoraAdapter>): Promise<HeldAdapter> {
    const entry = this.#entries.get(key) ?? this.#start(key, read);
    this.#touch(entry);
    entry.numUsers += 1; // before any wait: it must not go meanwhile
    try {
      return await entry.loaded;
    } catch (error) {
      entry.numUsers -= 1;
      throw error;
    }
  }

  release(held: HeldAdapter): void {
    for (const entry of this.#entries.values()) {
      if (entry.held !== held) continue;
      entry.numUsers -= 1;
      this.#touch(entry);
      this.#onRelease?.();
      return;
    }
    throw new Error(`adapter cache: adapter ${held.id} is released that is not here`);
  }

  /** Fails the requests that wait for room. Loaded adapters go with the memory. */
  close(): void {
    this.#isClosed = true;
    this.#onRelease?.();
  }

  /** @throws when an adapter is counted wrongly. For tests and idle moments. */
  checkIntegrity(numHeld: number): void {
    const entries = [...this.#entries.values()];
    const users = entries.reduce((sum, { numUsers }) => sum + numUsers, 0);
    const bytes = entries.reduce((sum, { numBytes }) => sum + numBytes, 0);
    if (users !== numHeld) throw new Error(`adapter cache: ${users} holds, expected ${numHeld}`);
    if (bytes !== this.#numBytes) throw new Error(`adapter cache: ${bytes} bytes, expected ${this.#numBytes}`);
  }

  #start(key: string, read: () => Promise<LoraAdapter>): Entry {
    const loaded = this.#queue.then(() => this.#load(entry, read));
    const entry: Entry = { key, numUsers: 0, numBytes: 0, held: undefined, loaded };
    this.#entries.set(key, entry);
    this.#queue = loaded.catch(() => this.#entries.delete(key));
    return entry;
  }

  async #load(entry: Entry, read: () => Promise<LoraAdapter>): Promise<HeldAdapter> {
    const adapter = await read();
    this.#checkRank(adapter);
    const numBytes = this.#memory.bytesOf?.(adapter) ?? loraBytes(adapter);
    await this.#makeRoom(numBytes);
    const id = await this.#memory.load(adapter);
    entry.numBytes = numBytes;
    this.#numBytes += numBytes;
    entry.held = { id, salt: digest(adapter) };
    return entry.held;
  }

  async #makeRoom(numBytes: number): Promise<void> {
    const { maxBytes } = this.#limits;
    if (numBytes > maxBytes) {
      throw invalidArgument(
        `the adapter takes ${numBytes} bytes of memory, the cache of adapters has ${maxBytes}: ` +
          "raise lora_cache_host_memory_bytes",
      );
    }
    while (this.#numBytes + numBytes > maxBytes) {
      if (this.#isClosed) throw new ServerError("unavailable", "the engine is closed");
      const idle = [...this.#entries.values()].find(({ held, numUsers }) => held !== undefined && numUsers === 0);
      if (idle !== undefined) this.#unload(idle);
      else await this.#released();
    }
  }

  /** Settles at the next release; only one load waits at a time. */
  #released(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRelease = () => {
        this.#onRelease = undefined;
        resolve();
      };
    });
  }

  #unload(entry: Entry): void {
    this.#entries.delete(entry.key);
    this.#numBytes -= entry.numBytes;
    if (entry.held !== undefined) this.#memory.unload(entry.held.id);
  }

  #touch(entry: Entry): void {
    if (this.#entries.delete(entry.key)) this.#entries.set(entry.key, entry);
  }

  #checkRank({ changes }: LoraAdapter): void {
    const largest = changes.reduce((most, { rank }) => Math.max(most, rank), 0);
    if (largest <= this.#limits.maxRank) return;
    throw invalidArgument(
      `the adapter has rank ${largest}, expected at most ${this.#limits.maxRank}: raise lora_cache_max_adapter_size`,
    );
  }
}

function digest({ changes, file }: LoraAdapter): string {
  const hash = createHash("sha256");
  if (file !== undefined) hash.update(file.stamp);
  for (const { layer, target, rank, a, b } of changes) {
    hash.update(`${layer} ${target.linear} ${target.column} ${rank};`);
    for (const { buffer, byteOffset, byteLength } of [a, b])
      hash.update(new Uint8Array(buffer, byteOffset, byteLength));
  }
  return hash.digest("base64");
}
