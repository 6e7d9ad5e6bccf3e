/**
 * The local response cache: LRU, bounded in bytes. The key covers everything that decides an answer: model, version,
 * inputs with datatype and shape, requested outputs, parameters. Triton's key omits shapes, datatypes and outputs, so
 * different requests can collide there. Source: Triton documentation, "Response Cache".
 */
import { createHash } from "node:crypto";
import type { InferRequest, ParameterValue } from "../../core/infer-request.ts";
import type { Tensor } from "../../core/tensor.ts";

/** Estimated bytes of an entry beside its tensors: key, maps, objects. */
const ENTRY_OVERHEAD_BYTES = 512;
const TENSOR_OVERHEAD_BYTES = 128;
const US_PER_MS = 1000;

export interface CacheStatistics {
  readonly capacityBytes: number;
  readonly usedBytes: number;
  readonly numEntries: number;
  readonly numLookups: number;
  readonly numHits: number;
  readonly numMisses: number;
  readonly numEvictions: number;
  readonly lookupUs: number;
  readonly insertionUs: number;
}

interface Entry {
  readonly outputs: readonly Tensor[];
  readonly bytes: number;
}

export class ResponseCache {
  readonly #capacityBytes: number;
  /** In order of use: the least recently used first. */
  readonly #entries = new Map<string, Entry>();
  #usedBytes = 0;
  #numLookups = 0;
  #numHits = 0;
  #numEvictions = 0;
  #lookupMs = 0;
  #insertionMs = 0;

  constructor(capacityBytes: number) {
    this.#capacityBytes = capacityBytes;
  }

  /** The outputs of an equal request, or undefined. */
  lookUp(key: string): readonly Tensor[] | undefined {
    const startMs = performance.now();
    this.#numLookups += 1;
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      this.#numHits += 1;
      this.#entries.delete(key);
      this.#entries.set(key, entry);
    }
    this.#lookupMs += performance.now() - startMs;
    return entry?.outputs;
  }

  /** Stores a copy. An entry larger than the whole cache is skipped. */
  insert(key: string, outputs: readonly Tensor[]): void {
    const startMs = performance.now();
    const bytes = entryBytes(key, outputs);
    if (bytes <= this.#capacityBytes && !this.#entries.has(key)) {
      this.#evictUntil(this.#capacityBytes - bytes);
      this.#entries.set(key, { outputs: outputs.map(copyOf), bytes });
      this.#usedBytes += bytes;
    }
    this.#insertionMs += performance.now() - startMs;
  }

  statistics(): CacheStatistics {
    return {
      capacityBytes: this.#capacityBytes,
      usedBytes: this.#usedBytes,
      numEntries: this.#entries.size,
      numLookups: this.#numLookups,
      numHits: this.#numHits,
      numMisses: this.#numLookups - this.#numHits,
      numEvictions: this.#numEvictions,
      lookupUs: Math.floor(this.#lookupMs * US_PER_MS),
      insertionUs: Math.floor(this.#insertionMs * US_PER_MS),
    };
  }

  /** @throws Error when the byte count is inconsistent */
  checkIntegrity(): void {
    const bytes = [...this.#entries.values()].reduce((sum, entry) => sum + entry.bytes, 0);
    if (bytes !== this.#usedBytes) throw new Error(`cache holds ${bytes} bytes and counts ${this.#usedBytes}`);
    if (bytes > this.#capacityBytes) throw new Error(`cache holds ${bytes} bytes of ${this.#capacityBytes}`);
  }

  #evictUntil(limitBytes: number): void {
    for (const [key, { bytes }] of this.#entries) {
      if (this.#usedBytes <= limitBytes) return;
      this.#entries.delete(key);
      this.#usedBytes -= bytes;
      this.#numEvictions += 1;
    }
  }
}

export interface CacheKeyOptions {
  readonly version: string;
  /** Distinguishes loads of a version: another load may answer differently. */
  readonly generation: string;
  /** False when the model cannot see parameters. */
  readonly parametersMatter: boolean;
}

/** SHA-256 over everything that decides the answer. */
export function cacheKey(request: InferRequest, options: CacheKeyOptions): string {
  const hash = createHash("sha256");
  const text = (value: string): void => void hash.update(`${Buffer.byteLength(value)}:${value}`);
  text(`${request.modelName}/${options.version}/${options.generation}`);
  for (const name of [...request.outputs].sort()) text(name);
  const parameters = options.parametersMatter ? [...request.parameters] : [];
  for (const [name, value] of parameters.sort(([a], [b]) => (a < b ? -1 : 1))) text(`${name}=${word(value)}`);
  for (const { name, datatype, shape, data } of [...request.inputs].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    text(`${name} ${datatype} [${shape.join(",")}] ${data.length}`);
    hash.update(data);
  }
  return hash.digest("base64");
}

function word(value: ParameterValue): string {
  return typeof value === "object" ? `double ${value.double}` : `${typeof value} ${value}`;
}

function entryBytes(key: string, outputs: readonly Tensor[]): number {
  return outputs.reduce(
    (sum, { data, name }) => sum + data.length + name.length + TENSOR_OVERHEAD_BYTES,
    ENTRY_OVERHEAD_BYTES + key.length,
  );
}

/** A response's buffers are released after sending, so the cache must own a copy. */
function copyOf(tensor: Tensor): Tensor {
  return { ...tensor, data: tensor.data.slice() };
}
