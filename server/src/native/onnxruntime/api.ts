/**
 * The ONNX Runtime C functions that we call, by index in the function table. Source: onnxruntime_c_api.h; the table is
 * append-only. Signatures only: callers own the objects.
 */
import {
  type Address,
  type CType,
  functionAt,
  type NativeFunction,
  openLibrary,
  type Pointer,
  viewMemory,
} from "../ffi.ts";

/** Requested version of the C API: it has every function below, and every later library serves it. */
const API_VERSION = 18;

/** Null is success; anything else must be released. */
export type Status = Address | null;
type Returning<Result, Args extends unknown[]> = NativeFunction<Args, Result>;
type Call<Args extends unknown[]> = Returning<Status, Args>;
type Release = Returning<void, [Address]>;
export type RunArguments = [
  session: Address,
  runOptions: Address,
  inputNames: Pointer,
  inputs: Pointer,
  inputCount: number,
  outputNames: Pointer,
  outputCount: number,
  out: Pointer,
];

/** Parameters marked `out` are filled by the call. Names are those of the C API. */
export interface OrtApi {
  readonly GetErrorCode: Returning<number, [Address]>;
  readonly GetErrorMessage: Returning<string, [Address]>;
  readonly CreateEnv: Call<[severity: number, logId: Pointer, out: Pointer]>;
  readonly DisableTelemetryEvents: Call<[env: Address]>;
  readonly CreateSession: Call<[env: Address, path: Pointer, options: Address, out: Pointer]>;
  readonly CreateSessionFromArray: Call<
    [env: Address, model: Pointer, byteLength: number, options: Address, out: Pointer]
  >;
  readonly Run: Call<RunArguments>;
  readonly CreateSessionOptions: Call<[out: Pointer]>;
  readonly SetOptimizedModelFilePath: Call<[options: Address, path: Pointer]>;
  readonly SetSessionExecutionMode: Call<[options: Address, mode: number]>;
  readonly EnableMemPattern: Call<[options: Address]>;
  readonly DisableMemPattern: Call<[options: Address]>;
  readonly EnableCpuMemArena: Call<[options: Address]>;
  readonly DisableCpuMemArena: Call<[options: Address]>;
  readonly SetSessionGraphOptimizationLevel: Call<[options: Address, level: number]>;
  readonly SetIntraOpNumThreads: Call<[options: Address, count: number]>;
  readonly SetInterOpNumThreads: Call<[options: Address, count: number]>;
  readonly SessionGetInputCount: Call<[session: Address, out: Pointer]>;
  readonly SessionGetOutputCount: Call<[session: Address, out: Pointer]>;
  readonly SessionGetOverridableInitializerCount: Call<[session: Address, out: Pointer]>;
  readonly SessionGetInputTypeInfo: Call<[session: Address, index: number, out: Pointer]>;
  readonly SessionGetOutputTypeInfo: Call<[session: Address, index: number, out: Pointer]>;
  readonly SessionGetOverridableInitializerTypeInfo: Call<[session: Address, index: number, out: Pointer]>;
  readonly SessionGetInputName: Call<[session: Address, index: number, allocator: Address, out: Pointer]>;
  readonly SessionGetOutputName: Call<[session: Address, index: number, allocator: Address, out: Pointer]>;
  readonly SessionGetOverridableInitializerName: Call<
    [session: Address, index: number, allocator: Address, out: Pointer]
  >;
  readonly CreateRunOptions: Call<[out: Pointer]>;
  readonly RunOptionsSetTerminate: Call<[runOptions: Address]>;
  readonly RunOptionsUnsetTerminate: Call<[runOptions: Address]>;
  readonly CreateTensorAsOrtValue: Call<
    [allocator: Address, shape: Pointer, rank: number, elementType: number, out: Pointer]
  >;
  readonly CreateTensorWithDataAsOrtValue: Call<
    [
      memoryInfo: Address,
      data: Pointer,
      byteLength: number,
      shape: Pointer,
      rank: number,
      elementType: number,
      out: Pointer,
    ]
  >;
  readonly GetTensorMutableData: Call<[value: Address, out: Pointer]>;
  readonly FillStringTensor: Call<[value: Address, strings: Pointer, count: number]>;
  readonly GetStringTensorDataLength: Call<[value: Address, out: Pointer]>;
  readonly GetStringTensorContent: Call<
    [value: Address, content: Pointer, byteLength: number, offsets: Pointer, count: number]
  >;
  readonly CastTypeInfoToTensorInfo: Call<[typeInfo: Address, out: Pointer]>;
  readonly GetOnnxTypeFromTypeInfo: Call<[typeInfo: Address, out: Pointer]>;
  readonly GetTensorElementType: Call<[tensorInfo: Address, out: Pointer]>;
  readonly GetDimensionsCount: Call<[tensorInfo: Address, out: Pointer]>;
  readonly GetDimensions: Call<[tensorInfo: Address, out: Pointer, rank: number]>;
  readonly GetSymbolicDimensions: Call<[tensorInfo: Address, out: Pointer, rank: number]>;
  readonly GetTensorTypeAndShape: Call<[value: Address, out: Pointer]>;
  readonly CreateCpuMemoryInfo: Call<[allocatorType: number, memoryType: number, out: Pointer]>;
  readonly AllocatorFree: Call<[allocator: Address, memory: Address]>;
  readonly GetAllocatorWithDefaultOptions: Call<[out: Pointer]>;
  readonly ReleaseEnv: Release;
  readonly ReleaseStatus: Release;
  readonly ReleaseMemoryInfo: Release;
  readonly ReleaseSession: Release;
  readonly ReleaseValue: Release;
  readonly ReleaseRunOptions: Release;
  readonly ReleaseTypeInfo: Release;
  readonly ReleaseTensorTypeAndShapeInfo: Release;
  readonly ReleaseSessionOptions: Release;
  readonly SessionGetModelMetadata: Call<[session: Address, out: Pointer]>;
  readonly ModelMetadataGetProducerName: Call<[metadata: Address, allocator: Address, out: Pointer]>;
  readonly ModelMetadataGetGraphName: Call<[metadata: Address, allocator: Address, out: Pointer]>;
  readonly ModelMetadataGetDomain: Call<[metadata: Address, allocator: Address, out: Pointer]>;
  readonly ModelMetadataGetDescription: Call<[metadata: Address, allocator: Address, out: Pointer]>;
  readonly ModelMetadataLookupCustomMetadataMap: Call<
    [metadata: Address, allocator: Address, key: Pointer, out: Pointer]
  >;
  readonly ModelMetadataGetVersion: Call<[metadata: Address, out: Pointer]>;
  readonly ReleaseModelMetadata: Release;
  readonly CreateEnvWithGlobalThreadPools: Call<[severity: number, logId: Pointer, threading: Address, out: Pointer]>;
  readonly DisablePerSessionThreads: Call<[options: Address]>;
  readonly CreateThreadingOptions: Call<[out: Pointer]>;
  readonly ReleaseThreadingOptions: Release;
  readonly ModelMetadataGetCustomMetadataMapKeys: Call<
    [metadata: Address, allocator: Address, outKeys: Pointer, outCount: Pointer]
  >;
  readonly GetAvailableProviders: Call<[outNames: Pointer, outCount: Pointer]>;
  readonly ReleaseAvailableProviders: Call<[names: Address, count: number]>;
  readonly AddSessionConfigEntry: Call<[options: Address, key: Pointer, value: Pointer]>;
  readonly SetGlobalIntraOpNumThreads: Call<[threading: Address, count: number]>;
  readonly SetGlobalInterOpNumThreads: Call<[threading: Address, count: number]>;
  readonly SetGlobalSpinControl: Call<[threading: Address, allowSpinning: number]>;
  readonly AddRunConfigEntry: Call<[runOptions: Address, key: Pointer, value: Pointer]>;
  readonly SessionOptionsAppendExecutionProvider_TensorRT_V2: Call<[options: Address, provider: Address]>;
  readonly CreateTensorRTProviderOptions: Call<[out: Pointer]>;
  readonly UpdateTensorRTProviderOptions: Call<[provider: Address, keys: Pointer, values: Pointer, count: number]>;
  readonly ReleaseTensorRTProviderOptions: Release;
  readonly SessionOptionsAppendExecutionProvider_CUDA_V2: Call<[options: Address, provider: Address]>;
  readonly SessionOptionsAppendExecutionProvider_OpenVINO_V2: Call<
    [options: Address, keys: Pointer, values: Pointer, count: number]
  >;
  readonly CreateCUDAProviderOptions: Call<[out: Pointer]>;
  readonly UpdateCUDAProviderOptions: Call<[provider: Address, keys: Pointer, values: Pointer, count: number]>;
  readonly ReleaseCUDAProviderOptions: Release;
  readonly RegisterCustomOpsLibrary_V2: Call<[options: Address, path: Pointer]>;
  /** `ended(id, outputs, outputCount, status)` is called on a thread of the session. */
  readonly RunAsync: Call<[...RunArguments, ended: Address, id: Address]>;
}

export type OrtFunctionName = keyof OrtApi;

const P = "void*";
const N = "size_t";
const INT = "int";

/** Index in the table, and the parameters. All functions return a status unless a third entry says otherwise. */
const FUNCTIONS: Readonly<Record<OrtFunctionName, readonly [number, readonly CType[], CType?]>> = {
  GetErrorCode: [1, [P], INT],
  GetErrorMessage: [2, [P], "str"],
  CreateEnv: [3, [INT, P, P]],
  DisableTelemetryEvents: [6, [P]],
  CreateSession: [7, [P, P, P, P]],
  CreateSessionFromArray: [8, [P, P, N, P, P]],
  Run: [9, [P, P, P, P, N, P, N, P]],
  CreateSessionOptions: [10, [P]],
  SetOptimizedModelFilePath: [11, [P, P]],
  SetSessionExecutionMode: [13, [P, INT]],
  EnableMemPattern: [16, [P]],
  DisableMemPattern: [17, [P]],
  EnableCpuMemArena: [18, [P]],
  DisableCpuMemArena: [19, [P]],
  SetSessionGraphOptimizationLevel: [23, [P, INT]],
  SetIntraOpNumThreads: [24, [P, INT]],
  SetInterOpNumThreads: [25, [P, INT]],
  SessionGetInputCount: [30, [P, P]],
  SessionGetOutputCount: [31, [P, P]],
  SessionGetOverridableInitializerCount: [32, [P, P]],
  SessionGetInputTypeInfo: [33, [P, N, P]],
  SessionGetOutputTypeInfo: [34, [P, N, P]],
  SessionGetOverridableInitializerTypeInfo: [35, [P, N, P]],
  SessionGetInputName: [36, [P, N, P, P]],
  SessionGetOutputName: [37, [P, N, P, P]],
  SessionGetOverridableInitializerName: [38, [P, N, P, P]],
  CreateRunOptions: [39, [P]],
  RunOptionsSetTerminate: [46, [P]],
  RunOptionsUnsetTerminate: [47, [P]],
  CreateTensorAsOrtValue: [48, [P, P, N, INT, P]],
  CreateTensorWithDataAsOrtValue: [49, [P, P, N, P, N, INT, P]],
  GetTensorMutableData: [51, [P, P]],
  FillStringTensor: [52, [P, P, N]],
  GetStringTensorDataLength: [53, [P, P]],
  GetStringTensorContent: [54, [P, P, N, P, N]],
  CastTypeInfoToTensorInfo: [55, [P, P]],
  GetOnnxTypeFromTypeInfo: [56, [P, P]],
  GetTensorElementType: [60, [P, P]],
  GetDimensionsCount: [61, [P, P]],
  GetDimensions: [62, [P, P, N]],
  GetSymbolicDimensions: [63, [P, P, N]],
  GetTensorTypeAndShape: [65, [P, P]],
  CreateCpuMemoryInfo: [69, [INT, INT, P]],
  AllocatorFree: [76, [P, P]],
  GetAllocatorWithDefaultOptions: [78, [P]],
  ReleaseEnv: [92, [P], "void"],
  ReleaseStatus: [93, [P], "void"],
  ReleaseMemoryInfo: [94, [P], "void"],
  ReleaseSession: [95, [P], "void"],
  ReleaseValue: [96, [P], "void"],
  ReleaseRunOptions: [97, [P], "void"],
  ReleaseTypeInfo: [98, [P], "void"],
  ReleaseTensorTypeAndShapeInfo: [99, [P], "void"],
  ReleaseSessionOptions: [100, [P], "void"],
  SessionGetModelMetadata: [111, [P, P]],
  ModelMetadataGetProducerName: [112, [P, P, P]],
  ModelMetadataGetGraphName: [113, [P, P, P]],
  ModelMetadataGetDomain: [114, [P, P, P]],
  ModelMetadataGetDescription: [115, [P, P, P]],
  ModelMetadataLookupCustomMetadataMap: [116, [P, P, P, P]],
  ModelMetadataGetVersion: [117, [P, P]],
  ReleaseModelMetadata: [118, [P], "void"],
  CreateEnvWithGlobalThreadPools: [119, [INT, P, P, P]],
  DisablePerSessionThreads: [120, [P]],
  CreateThreadingOptions: [121, [P]],
  ReleaseThreadingOptions: [122, [P], "void"],
  ModelMetadataGetCustomMetadataMapKeys: [123, [P, P, P, P]],
  GetAvailableProviders: [125, [P, P]],
  ReleaseAvailableProviders: [126, [P, INT]],
  AddSessionConfigEntry: [130, [P, P, P]],
  SetGlobalIntraOpNumThreads: [147, [P, INT]],
  SetGlobalInterOpNumThreads: [148, [P, INT]],
  SetGlobalSpinControl: [149, [P, INT]],
  AddRunConfigEntry: [165, [P, P, P]],
  SessionOptionsAppendExecutionProvider_TensorRT_V2: [170, [P, P]],
  CreateTensorRTProviderOptions: [171, [P]],
  UpdateTensorRTProviderOptions: [172, [P, P, P, N]],
  ReleaseTensorRTProviderOptions: [174, [P], "void"],
  SessionOptionsAppendExecutionProvider_CUDA_V2: [204, [P, P]],
  CreateCUDAProviderOptions: [205, [P]],
  UpdateCUDAProviderOptions: [206, [P, P, P, N]],
  ReleaseCUDAProviderOptions: [208, [P], "void"],
  RegisterCustomOpsLibrary_V2: [228, [P, P]],
  SessionOptionsAppendExecutionProvider_OpenVINO_V2: [275, [P, P, P, N]],
  RunAsync: [260, [P, P, P, P, N, P, N, P, P, P]],
};

export interface LoadedApi {
  readonly api: OrtApi;
  /** Release of the library, e.g. "1.30.0". */
  readonly version: string;
}

/** @throws Error when the file is not ONNX Runtime, or too old */
export function loadOrtApi(libraryPath: string): LoadedApi {
  const getBase = openLibrary(libraryPath).func<[], Address | null>("OrtGetApiBase", P, []);
  const base = getBase();
  if (base === null) throw new Error(`${libraryPath}: OrtGetApiBase gave nothing`);
  const [getApi = 0n, getVersion = 0n] = readTable(base, 2);
  const version = functionAt<[], string>(getVersion, "str", [])();
  const table = functionAt<[number], Address | null>(getApi, P, ["uint32_t"])(API_VERSION);
  if (table === null) {
    throw new Error(`${libraryPath} is ONNX Runtime ${version}, expected one that serves API version ${API_VERSION}`);
  }
  return { api: bindFunctions(table), version };
}

function bindFunctions(table: Address): OrtApi {
  const entries = Object.entries(FUNCTIONS);
  const addresses = readTable(table, Math.max(...entries.map(([, [index]]) => index)) + 1);
  const functions = entries.map(([name, [index, parameters, result = P]]) => {
    return [name, functionAt(addresses[index] ?? 0n, result, parameters)];
  });
  return Object.fromEntries(functions) as OrtApi;
}

function readTable(address: Address, count: number): BigUint64Array {
  const view = viewMemory(address, count * BigUint64Array.BYTES_PER_ELEMENT);
  return new BigUint64Array(view.buffer).slice();
}
