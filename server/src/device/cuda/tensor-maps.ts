/** Tensor maps of matrices for TMA (CUtensorMap of the CUDA driver API), in memory where launches find them. Knows no kernel. */
import { type CudaDriver, pinnedBytes } from "../../native/cuda/cuda.ts";
import type { Address } from "../../native/ffi.ts";
import type { TensorMap } from "./kernel-stream.ts";

/** CUtensorMap, which must begin at a multiple of 64. */
const MAP_BYTES = 128;
const ALIGNMENT = 64;
/** Bytes of a row in one tile: the longest that the swizzle of 128 bytes allows. */
const PIECE_BYTES = 128;
/** CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion */
const BYTES_TYPE = 0;
const SWIZZLE_128 = 3;
const PROMOTION_256 = 3;
/** Alignment of an address and of a row. */
const ROW_ALIGNMENT = 16;

export class TensorMaps {
  readonly #driver: CudaDriver;
  readonly #room: ReturnType<typeof pinnedBytes>;
  readonly #first: number;
  readonly #maxMaps: number;
  readonly #known = new Map<string, Uint8Array>();

  constructor(driver: CudaDriver, maxMaps: number) {
    this.#driver = driver;
    this.#maxMaps = maxMaps;
    this.#room = pinnedBytes(maxMaps * MAP_BYTES + ALIGNMENT);
    this.#first = (ALIGNMENT - Number(this.#room.address % BigInt(ALIGNMENT))) % ALIGNMENT;
  }

  /** At place `index` until something else is put there. @throws Error when no tensor map can be like that */
  put(index: number, map: TensorMap): Address {
    const { address, rowBytes, numRows, pieceRows } = map;
    if (index >= this.#maxMaps) throw new Error(`a launch with more than ${this.#maxMaps} tensor maps`);
    const at = this.#first + index * MAP_BYTES;
    const place = this.#room.address + BigInt(at);
    const bytes = new Uint8Array(this.#room.view.buffer, at, MAP_BYTES);
    const key = `${address} ${rowBytes} ${numRows} ${pieceRows}`;
    const known = this.#known.get(key);
    if (known !== undefined) bytes.set(known);
    else {
      this.#encode(place, map);
      this.#known.set(key, bytes.slice());
    }
    return place;
  }

  #encode(place: Address, { address, rowBytes, numRows, pieceRows }: TensorMap): void {
    if (address % BigInt(ROW_ALIGNMENT) !== 0n || rowBytes % ROW_ALIGNMENT !== 0) {
      throw new Error(
        `a tensor map: expected address and rows of a multiple of ${ROW_ALIGNMENT} bytes, ` +
          `got ${address} and ${rowBytes}`,
      );
    }
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
