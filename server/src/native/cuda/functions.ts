/**
 * The CUDA driver functions that Nereid calls: name and C parameters. Source: CUDA Driver API, cuda.h. Handles and
 * device addresses are bigints.
 */
import type { Address, Pointer } from "../ffi.ts";

/** Zero is success. */
export type CudaStatus = number;

/** CUipcMemHandle, passed by value: the FFI must know this type before the functions are resolved. */
export const SHARED_HANDLE = "CUipcMemHandle";
export const SHARED_HANDLE_BYTES = 64;
export interface SharedHandle {
  /** Its size is CU_IPC_HANDLE_SIZE. */
  readonly reserved: Uint8Array;
}

export interface CudaFunctions {
  init(flags: number): CudaStatus;
  driverVersion(version: Int32Array): CudaStatus;
  deviceCount(count: Int32Array): CudaStatus;
  device(device: Int32Array, ordinal: number): CudaStatus;
  deviceName(name: Uint8Array, length: number, device: number): CudaStatus;
  deviceAttribute(value: Int32Array, attribute: number, device: number): CudaStatus;
  deviceMemory(bytes: BigUint64Array, device: number): CudaStatus;
  retainContext(context: BigUint64Array, device: number): CudaStatus;
  releaseContext(device: number): CudaStatus;
  setContext(context: Address): CudaStatus;
  canAccessPeer(answer: Int32Array, device: number, peer: number): CudaStatus;
  enablePeerAccess(peer: Address, flags: number): CudaStatus;
  memoryInfo(free: BigUint64Array, total: BigUint64Array): CudaStatus;
  allocate(pointer: BigUint64Array, numBytes: bigint): CudaStatus;
  free(pointer: Address): CudaStatus;
  allocateHost(address: BigUint64Array, numBytes: bigint, flags: number): CudaStatus;
  freeHost(address: Address): CudaStatus;
  copyToDevice(to: Address, from: Pointer, numBytes: bigint, stream: Address): CudaStatus;
  copyToHost(to: Pointer, from: Address, numBytes: bigint, stream: Address): CudaStatus;
  copyOnDevice(to: Address, from: Address, numBytes: bigint, stream: Address): CudaStatus;
  copyRows(description: Uint8Array, stream: Address): CudaStatus;
  openShared(pointer: BigUint64Array, handle: SharedHandle, flags: number): CudaStatus;
  closeShared(pointer: Address): CudaStatus;
  addressRange(base: BigUint64Array, numBytes: BigUint64Array, pointer: Address): CudaStatus;
  fillBytes(to: Address, value: number, count: bigint, stream: Address): CudaStatus;
  fillWords(to: Address, value: number, count: bigint, stream: Address): CudaStatus;
  createStream(stream: BigUint64Array, flags: number): CudaStatus;
  destroyStream(stream: Address): CudaStatus;
  synchronizeStream(stream: Address): CudaStatus;
  streamWaitEvent(stream: Address, event: Address, flags: number): CudaStatus;
  createEvent(event: BigUint64Array, flags: number): CudaStatus;
  destroyEvent(event: Address): CudaStatus;
  recordEvent(event: Address, stream: Address): CudaStatus;
  queryEvent(event: Address): CudaStatus;
  synchronizeEvent(event: Address): CudaStatus;
  elapsedMs(ms: Float32Array, start: Address, end: Address): CudaStatus;
  loadModule(module: BigUint64Array, image: Uint8Array): CudaStatus;
  unloadModule(module: Address): CudaStatus;
  moduleFunction(kernel: BigUint64Array, module: Address, name: string): CudaStatus;
  functionAttribute(value: Int32Array, attribute: number, kernel: Address): CudaStatus;
  setFunctionAttribute(kernel: Address, attribute: number, value: number): CudaStatus;
  launch(config: Uint8Array, kernel: Address, parameters: BigUint64Array, extra: null): CudaStatus;
  encodeTensorMap(
    table: Address,
    type: number,
    rank: number,
    address: Address,
    sizes: BigUint64Array,
    strides: BigUint64Array,
    box: Uint32Array,
    steps: Uint32Array,
    interleave: number,
    swizzle: number,
    promotion: number,
    fill: number,
  ): CudaStatus;
  beginCapture(stream: Address, mode: number): CudaStatus;
  endCapture(stream: Address, graph: BigUint64Array): CudaStatus;
  instantiateGraph(executable: BigUint64Array, graph: Address, flags: bigint): CudaStatus;
  launchGraph(executable: Address, stream: Address): CudaStatus;
  destroyGraph(graph: Address): CudaStatus;
  destroyExecutable(executable: Address): CudaStatus;
  errorName(status: CudaStatus, name: BigUint64Array): CudaStatus;
  errorText(status: CudaStatus, text: BigUint64Array): CudaStatus;
}

/** Parameters are separated by spaces. Handles are "size_t": the FFI passes bigints unchanged. */
export const CUDA_SIGNATURES: Readonly<Record<keyof CudaFunctions, readonly [symbol: string, parameters: string]>> = {
  init: ["cuInit", "uint"],
  driverVersion: ["cuDriverGetVersion", "void*"],
  deviceCount: ["cuDeviceGetCount", "void*"],
  device: ["cuDeviceGet", "void* int"],
  deviceName: ["cuDeviceGetName", "void* int int"],
  deviceAttribute: ["cuDeviceGetAttribute", "void* int int"],
  deviceMemory: ["cuDeviceTotalMem_v2", "void* int"],
  retainContext: ["cuDevicePrimaryCtxRetain", "void* int"],
  releaseContext: ["cuDevicePrimaryCtxRelease_v2", "int"],
  setContext: ["cuCtxSetCurrent", "size_t"],
  canAccessPeer: ["cuDeviceCanAccessPeer", "void* int int"],
  enablePeerAccess: ["cuCtxEnablePeerAccess", "size_t uint"],
  memoryInfo: ["cuMemGetInfo_v2", "void* void*"],
  allocate: ["cuMemAlloc_v2", "void* size_t"],
  free: ["cuMemFree_v2", "size_t"],
  allocateHost: ["cuMemHostAlloc", "void* size_t uint"],
  freeHost: ["cuMemFreeHost", "size_t"],
  copyToDevice: ["cuMemcpyHtoDAsync_v2", "size_t void* size_t size_t"],
  copyToHost: ["cuMemcpyDtoHAsync_v2", "void* size_t size_t size_t"],
  copyOnDevice: ["cuMemcpyDtoDAsync_v2", "size_t size_t size_t size_t"],
  copyRows: ["cuMemcpy2DAsync_v2", "void* size_t"],
  openShared: ["cuIpcOpenMemHandle_v2", `void* ${SHARED_HANDLE} uint`],
  closeShared: ["cuIpcCloseMemHandle", "size_t"],
  addressRange: ["cuMemGetAddressRange_v2", "void* void* size_t"],
  fillBytes: ["cuMemsetD8Async", "size_t uint8 size_t size_t"],
  fillWords: ["cuMemsetD32Async", "size_t uint size_t size_t"],
  createStream: ["cuStreamCreate", "void* uint"],
  destroyStream: ["cuStreamDestroy_v2", "size_t"],
  synchronizeStream: ["cuStreamSynchronize", "size_t"],
  streamWaitEvent: ["cuStreamWaitEvent", "size_t size_t uint"],
  createEvent: ["cuEventCreate", "void* uint"],
  destroyEvent: ["cuEventDestroy_v2", "size_t"],
  recordEvent: ["cuEventRecord", "size_t size_t"],
  queryEvent: ["cuEventQuery", "size_t"],
  synchronizeEvent: ["cuEventSynchronize", "size_t"],
  elapsedMs: ["cuEventElapsedTime", "void* size_t size_t"],
  loadModule: ["cuModuleLoadData", "void* void*"],
  unloadModule: ["cuModuleUnload", "size_t"],
  moduleFunction: ["cuModuleGetFunction", "void* size_t str"],
  functionAttribute: ["cuFuncGetAttribute", "void* int size_t"],
  setFunctionAttribute: ["cuFuncSetAttribute", "size_t int int"],
  launch: ["cuLaunchKernelEx", "void* size_t void* void*"],
  encodeTensorMap: ["cuTensorMapEncodeTiled", "size_t int uint size_t void* void* void* void* int int int int"],
  beginCapture: ["cuStreamBeginCapture_v2", "size_t int"],
  endCapture: ["cuStreamEndCapture", "size_t void*"],
  instantiateGraph: ["cuGraphInstantiateWithFlags", "void* size_t uint64"],
  launchGraph: ["cuGraphLaunch", "size_t size_t"],
  destroyGraph: ["cuGraphDestroy", "size_t"],
  destroyExecutable: ["cuGraphExecDestroy", "size_t"],
  errorName: ["cuGetErrorName", "int void*"],
  errorText: ["cuGetErrorString", "int void*"],
};

/** CUdevice_attribute */
export const DEVICE_ATTRIBUTES = {
  multiprocessorCount: 16,
  computeCapabilityMajor: 75,
  computeCapabilityMinor: 76,
  maxSharedBytesPerBlock: 97,
} as const;

/** CUfunction_attribute */
export const FUNCTION_ATTRIBUTES = {
  sharedBytes: 1,
  localBytes: 3,
  numRegisters: 4,
  maxDynamicSharedBytes: 8,
} as const;

export const CUDA_STATUS = { success: 0, outOfMemory: 2, notReady: 600, peerAccessAlreadyEnabled: 704 } as const;
export const STREAM_NON_BLOCKING = 1;
export const EVENT_DISABLE_TIMING = 2;
/** Operations of other threads do not affect the capture (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL). */
export const CAPTURE_THREAD_LOCAL = 1;
