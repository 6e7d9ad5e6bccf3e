/**
 * Regions in use by one request, held until it ends (Triton's system shared memory extension). Knows no wire format.
 */
import { ServerError } from "../core/server-error.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Region } from "./region.ts";
import type { SharedMemoryRegions } from "./shared-memory.ts";

/** A part of a region, as a client names it. Numbers are unsigned, of any size. */
export interface RegionPart {
  readonly region: string;
  readonly offset: bigint;
  readonly byteSize: bigint;
}

/** Destination of an output. */
export interface OutputTarget {
  readonly region: Region;
  readonly offset: number;
  readonly byteSize: number;
}

/** Copied in some milliseconds. */
const SLICE_BYTES = 8 * 1024 * 1024;
const NONE: ReadonlySet<Region> = new Set();

export class RequestMemory {
  readonly #regions: SharedMemoryRegions;
  /** Made for the few requests that use a region at all. */
  #held: Set<Region> | undefined;

  constructor(regions: SharedMemoryRegions) {
    this.#regions = regions;
  }

  get isUsed(): boolean {
    return this.#held !== undefined;
  }

  /** The bytes, good until `release()`: those that the client has, where the host reaches them. @throws ServerError when there is no such region or part */
  bytes({ region, offset, byteSize }: RegionPart): Uint8Array {
    return this.#hold(region).slice(offset, byteSize);
  }

  /** @throws ServerError when there is no such region or part */
  target({ region: name, offset, byteSize }: RegionPart): OutputTarget {
    const region = this.#hold(name);
    region.expectPart(offset, byteSize);
    return { region, offset: Number(offset), byteSize: Number(byteSize) };
  }

  #hold(name: string): Region {
    const region = this.#regions.find(name);
    this.#held ??= new Set();
    if (!this.#held.has(region)) {
      region.acquire();
      this.#held.add(region);
    }
    return region;
  }

  /** The tensor with bytes of its own, if those that it has are a region's: it leaves when the region may be gone. */
  detached(tensor: Tensor): Tensor {
    const { buffer } = tensor.data;
    for (const region of this.#held ?? NONE) {
      if (region.isBehind(buffer)) return { ...tensor, data: tensor.data.slice() };
    }
    return tensor;
  }

  /** The request has ended. */
  release(): void {
    for (const region of this.#held ?? NONE) region.release();
    this.#held = undefined;
  }
}

/** @throws ServerError when the output does not fit, or the object behind the region has become too short */
export function writeOutput(target: OutputTarget, output: Tensor): void {
  const slices = writeOutputInSlices(target, output);
  while (slices.next().done !== true);
}

/** As `writeOutput()`, with pauses: a gigabyte takes half a second or more. The request holds the region meanwhile. */
export function* writeOutputInSlices(
  { region, offset, byteSize }: OutputTarget,
  { name, data }: Tensor,
): Generator<undefined, void> {
  if (data.length > byteSize) {
    throw new ServerError(
      "internal",
      `shared memory size specified with the request for output '${name}' (${byteSize} bytes) should be at least ${data.length} bytes to hold the results`,
    );
  }
  region.write(offset, data.subarray(0, SLICE_BYTES));
  for (let start = SLICE_BYTES; start < data.length; start += SLICE_BYTES) {
    yield;
    region.write(offset + start, data.subarray(start, start + SLICE_BYTES));
  }
}
