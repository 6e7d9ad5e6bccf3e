/**
 * Tensor maps of matrices for TMA (CUtensorMap of the CUDA driver API) in memory of the device that is never written again.
 * A kernel takes the address of one. As parameters they were found invalid in kernels that had begun ahead of the kernel
 * before (programmatic dependent launch): see bench/gpu/results/traffic.md. Knows no kernel.
 */
import type { CudaDriver } from "../../native/cuda/cuda.ts";
import type { Address } from "../../native/ffi.ts";
import { CudaBuffer, PinnedBuffer } from "./cuda-memory.ts";
import type { DevicePointer, TensorMap } from "./kernel-stream.ts";

/** CUtensorMap; it must begin at a multiple of 64. */
const MAP_BYTES = 128;
const MAPS_OF_PAGE = 512;
/** Bytes of a row in one tile: the longest that the swizzle of 128 bytes allows. */
const PIECE_BYTES = 128;
/** CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion */
const BYTES_TYPE = 0;
const SWIZZLE_128 = 3;
const PROMOTION_256 = 3;
/** Alignment of an address and of a row. */
const ROW_ALIGNMENT = 16;

/** Tensor maps lie at the same place in both, and never change. */
interface Page {
  readonly host: PinnedBuffer;
  readonly device: CudaBuffer;
  numMaps: number;
}

export class TensorMaps {
  readonly #driver: CudaDriver;
  readonly #stream: Address;
  readonly #pages: Page[] = [];
  readonly #known = new Map<string, DevicePointer>();

  /** @param stream which copies new ones to the device, and runs the kernels that use them */
  constructor(driver: CudaDriver, stream: Address) {
    this.#driver = driver;
    this.#stream = stream;
  }

  /** Its address on the device. @throws Error when no tensor map can be like that */
  place(map: TensorMap): DevicePointer {
    const { address, rowBytes, numRows, pieceRows } = map;
    const key = `${address} ${rowBytes} ${numRows} ${pieceRows}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    checkTensorMap(map);
    const place = this.#add(map);
    this.#known.set(key, place);
    return place;
  }

  close(): void {
    for (const { host, device } of this.#pages) {
      device.close();
      host.close();
    }
    this.#pages.length = 0;
    this.#known.clear();
  }

  #add(map: TensorMap): DevicePointer {
    const { calls, check } = this.#driver;
    const page = this.#pageWithRoom();
    const at = BigInt(page.numMaps * MAP_BYTES);
    this.#encode(page.host.address + at, map);
    const to = page.device.address + at;
    check(calls.copyToDevice(to, page.host.address + at, BigInt(MAP_BYTES), this.#stream), "copying a tensor map");
    page.numMaps += 1;
    return to;
  }

  #pageWithRoom(): Page {
    const last = this.#pages.at(-1);
    if (last !== undefined && last.numMaps < MAPS_OF_PAGE) return last;
    const numBytes = MAPS_OF_PAGE * MAP_BYTES;
    const host = new PinnedBuffer(this.#driver, numBytes);
    const page = { host, device: new CudaBuffer(this.#driver, "tensor maps", numBytes), numMaps: 0 };
    this.#pages.push(page);
    return page;
  }

  #encode(place: Address, { address, rowBytes, numRows, pieceRows }: TensorMap): void {
    const sizes = BigUint64Array.of(BigInt(rowBytes), BigInt(numRows));
    const strides = BigUint64Array.of(BigInt(rowBytes));
    const box = Uint32Array.of(PIECE_BYTES, pieceRows);
    const steps = Uint32Array.of(1, 1);
    const { calls, check } = this.#driver;
    const status = calls.encodeTensorMap(
      ...([place, BYTES_TYPE, 2, address, sizes, strides, box, steps] as const),
      ...([0, SWIZZLE_128, PROMOTION_256, 0] as const),
    );
    check(status, `describing ${numRows} rows of ${rowBytes} bytes in pieces of ${pieceRows} as a tensor map`);
  }
}

function checkTensorMap({ address, rowBytes }: TensorMap): void {
  if (address % BigInt(ROW_ALIGNMENT) === 0n && rowBytes % ROW_ALIGNMENT === 0) return;
  throw new Error(
    `a tensor map: expected address and rows of a multiple of ${ROW_ALIGNMENT} bytes, got ${address} and ${rowBytes}`,
  );
}
