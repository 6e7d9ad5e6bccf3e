/**
 * Memory of keys and values on the CPU device: per layer the blocks that attention reads, and behind them a host KV
 * cache of the same form. Both are RAM here, whose pages the system commits at the first write. They are kept apart, so
 * that the engine drives the CPU and a GPU alike.
 */

import { CpuBuffer } from "../../device/cpu/cpu-buffer.ts";
import type { CpuDevice } from "../../device/cpu/cpu-device.ts";
import type { CpuTensorSpec } from "../../device/cpu/cpu-tensor.ts";
import { CPU_TYPE_BYTES, type CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../../models/config/decoder-config.ts";
import { hasCache, layerHeads } from "../../models/config/kv-bytes.ts";
import type { LayerCache } from "../../models/cpu/decoder-model.ts";
import type { KvCacheType } from "../engine-spec.ts";

/** Elements that share a scale: heads are whole numbers of them. */
const Q8_BLOCK = 32;

type KvShape = Pick<DecoderConfig, "layers" | "numKvHeads" | "headDim">;

export interface KvCacheOptions {
  readonly numBlocks: number;
  readonly numHostBlocks: number;
  readonly blockSize: number;
  readonly type: KvCacheType;
}

/** @throws Error when heads of the model cannot be kept in this type */
export function expectFittingHeads(config: KvShape, type: KvCacheType): void {
  const sizes = config.layers.map((layer) => layerHeads(config, layer).headDim);
  const headDim = sizes.find((size) => size % Q8_BLOCK !== 0);
  if (type !== "q8_0" || headDim === undefined) return;
  throw new Error(
    `kv_cache_type q8_0 keeps ${Q8_BLOCK} numbers to a scale, which heads of ${headDim} are no multiple of: take f16 or f32`,
  );
}

export class CpuKvCache {
  /** Undefined for recurrent layers. */
  readonly layers: readonly (LayerCache | undefined)[];
  readonly #near: CpuBuffer;
  readonly #far: CpuBuffer | undefined;
  readonly #numBlocks: number;
  /** Room for a block of each tensor. */
  readonly #blocks: readonly Uint8Array[];

  constructor(device: CpuDevice, config: KvShape, { numBlocks, numHostBlocks, blockSize, type }: KvCacheOptions) {
    expectFittingHeads(config, type);
    const widths = config.layers.filter(hasCache).map((layer) => layerHeads(config, layer).width);
    const specs = (count: number): CpuTensorSpec[] =>
      widths.flatMap((width) => [width, width]).map((width) => ({ type, shape: [count * blockSize, width] }));
    this.#numBlocks = numBlocks;
    this.#blocks = specs(1).map(
      ({ shape: [rows = 0, width = 0] }) => new Uint8Array(rows * width * CPU_TYPE_BYTES[type]),
    );
    this.#near = new CpuBuffer(device, specs(numBlocks));
    try {
      this.#far = numHostBlocks > 0 ? new CpuBuffer(device, specs(numHostBlocks)) : undefined;
    } catch (error) {
      this.#near.close();
      throw error;
    }
    const pairs = pairLayers(this.#near.tensors);
    const own = config.layers.map((layer) => (hasCache(layer) ? pairs.shift() : undefined));
    this.layers = config.layers.map(({ kvSource }, i) => own[kvSource ?? i]);
  }

  /** Pairs [from, to, ...], one after the other. */
  copyBlocks(pairs: Int32Array): void {
    for (let i = 0; i < pairs.length; i += 2) {
      const from = this.#place(pairs[i] ?? 0);
      const to = this.#place(pairs[i + 1] ?? 0);
      for (const [layer, tensor] of from.buffer.tensors.entries()) {
        const target = to.buffer.tensors[layer];
        const bytes = this.#blocks[layer];
        if (target === undefined || bytes === undefined) throw new Error("kv cache: device and host differ in layers");
        from.buffer.read(tensor, bytes, from.block * bytes.length);
        to.buffer.write(target, bytes, to.block * bytes.length);
      }
    }
  }

  close(): void {
    this.#near.close();
    this.#far?.close();
  }

  #place(block: number): { readonly buffer: CpuBuffer; readonly block: number } {
    const isFar = block >= this.#numBlocks;
    const buffer = isFar ? this.#far : this.#near;
    if (buffer === undefined) throw new Error(`kv cache: there is no block ${block}`);
    return { buffer, block: isFar ? block - this.#numBlocks : block };
  }
}

function pairLayers(tensors: readonly CpuTensor[]): LayerCache[] {
  const caches: LayerCache[] = [];
  for (let i = 0; i + 1 < tensors.length; i += 2) {
    const [keys, values] = tensors.slice(i, i + 2);
    if (keys !== undefined && values !== undefined) caches.push({ keys, values });
  }
  return caches;
}
