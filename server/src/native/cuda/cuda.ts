/**
 * Opens the CUDA driver and converts status codes to errors with CUDA's name and the attempted operation. Source: CUDA
 * Driver API. Knows no stream, kernel or model.
 */

import { type Address, addressOf, openLibrary, readCString, structType } from "../ffi.ts";
import {
  CUDA_SIGNATURES,
  CUDA_STATUS,
  type CudaFunctions,
  type CudaStatus,
  SHARED_HANDLE,
  SHARED_HANDLE_BYTES,
} from "./functions.ts";
import { expectCudaLibrary } from "./libraries.ts";

export class CudaError extends Error {
  /** CUDA's name, e.g. "CUDA_ERROR_ILLEGAL_ADDRESS". */
  readonly cudaName: string;

  constructor(cudaName: string, message: string) {
    super(message);
    this.name = "CudaError";
    this.cudaName = cudaName;
  }

  /** A sticky error: no call works any more in this process. */
  get isSticky(): boolean {
    return STICKY.has(this.cudaName);
  }
}

const STICKY: ReadonlySet<string> = new Set([
  "CUDA_ERROR_ILLEGAL_ADDRESS",
  "CUDA_ERROR_LAUNCH_TIMEOUT",
  "CUDA_ERROR_ASSERT",
  "CUDA_ERROR_HARDWARE_STACK_ERROR",
  "CUDA_ERROR_ILLEGAL_INSTRUCTION",
  "CUDA_ERROR_MISALIGNED_ADDRESS",
  "CUDA_ERROR_INVALID_ADDRESS_SPACE",
  "CUDA_ERROR_INVALID_PC",
  "CUDA_ERROR_LAUNCH_FAILED",
  "CUDA_ERROR_ECC_UNCORRECTABLE",
  "CUDA_ERROR_CONTAINED",
  "CUDA_ERROR_UNKNOWN",
]);

export interface CudaDriver {
  readonly path: string;
  /** e.g. 13000 for CUDA 13.0. */
  readonly version: number;
  readonly calls: CudaFunctions;
  /** `doing`: the attempted operation, for the message. @throws CudaError unless the status is success */
  check(status: CudaStatus, doing: string): void;
}

let opened: CudaDriver | undefined;

/** Once per process. @throws Error when there is no driver, or no device that it can use */
export function openCuda(): CudaDriver {
  if (opened !== undefined) return opened;
  const path = expectCudaLibrary("driver");
  const library = openLibrary(path);
  structType(SHARED_HANDLE, { reserved: `uint8_t[${SHARED_HANDLE_BYTES}]` });
  const entries = Object.entries(CUDA_SIGNATURES).map(([name, [symbol, parameters]]) => [
    name,
    library.func(symbol, "int", parameters.split(" ")),
  ]);
  const calls = Object.fromEntries(entries) as unknown as CudaFunctions;
  const check = (status: CudaStatus, doing: string): void => {
    if (status !== CUDA_STATUS.success) throw describe(calls, status, doing);
  };
  check(calls.init(0), "starting the CUDA driver");
  const version = new Int32Array(1);
  check(calls.driverVersion(version), "asking for the version of the CUDA driver");
  opened = { path, version: version[0] ?? 0, calls, check };
  return opened;
}

function describe(calls: CudaFunctions, status: CudaStatus, doing: string): CudaError {
  const name = textOf((text) => calls.errorName(status, text)) ?? `CUDA error ${status}`;
  const text = textOf((out) => calls.errorText(status, out)) ?? "unknown";
  return new CudaError(name, `${doing}: ${name}: ${text}`);
}

function textOf(ask: (out: BigUint64Array) => CudaStatus): string | undefined {
  const out = new BigUint64Array(1);
  const address: Address = ask(out) === CUDA_STATUS.success ? (out[0] ?? 0n) : 0n;
  return address === 0n ? undefined : readCString(address);
}

/** Memory whose address C may keep: the JavaScript engine never moves it, unlike small typed arrays. */
export function pinnedBytes(numBytes: number): { readonly view: DataView<ArrayBuffer>; readonly address: Address } {
  const view = new DataView(new ArrayBuffer(numBytes));
  return { view, address: addressOf(view) };
}
