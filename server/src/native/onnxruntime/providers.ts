/**
 * Execution providers besides the CPU, and how to add them to a session. Source: ONNX Runtime documentation, "Execution
 * Providers". Knows no model.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { loadCudnn, missingLibrary, withFoundLibraries } from "../cuda/dependencies.ts";
import { type Address, addressOf, cString, type Pointer, readCString, viewMemory } from "../ffi.ts";
import type { OrtApi, Status } from "./api.ts";
import { check, OnnxRuntimeError } from "./status.ts";

export type ProviderKind = "cuda" | "tensorrt" | "openvino";

/** By ONNX Runtime's names. */
export const PROVIDER_NAMES: Readonly<Record<ProviderKind, string>> = {
  cuda: "CUDAExecutionProvider",
  tensorrt: "TensorrtExecutionProvider",
  openvino: "OpenVINOExecutionProvider",
};

interface ProviderCalls {
  create(out: Pointer): Status;
  update(provider: Address, keys: Pointer, values: Pointer, count: number): Status;
  append(settings: Address, provider: Address): Status;
  release(provider: Address): void;
}

function callsOf(api: OrtApi, kind: "cuda" | "tensorrt"): ProviderCalls {
  if (kind === "cuda") {
    return {
      create: api.CreateCUDAProviderOptions,
      update: api.UpdateCUDAProviderOptions,
      append: api.SessionOptionsAppendExecutionProvider_CUDA_V2,
      release: api.ReleaseCUDAProviderOptions,
    };
  }
  return {
    create: api.CreateTensorRTProviderOptions,
    update: api.UpdateTensorRTProviderOptions,
    append: api.SessionOptionsAppendExecutionProvider_TensorRT_V2,
    release: api.ReleaseTensorRTProviderOptions,
  };
}

/** Providers are separate libraries beside the main one. */
const LIBRARIES: ReadonlyMap<string, string> = new Map([
  [PROVIDER_NAMES.cuda, "libonnxruntime_providers_cuda.so"],
  [PROVIDER_NAMES.tensorrt, "libonnxruntime_providers_tensorrt.so"],
  [PROVIDER_NAMES.openvino, "libonnxruntime_providers_openvino.so"],
]);

/** Providers whose libraries are present. */
export function availableProviders(api: OrtApi, libraryPath: string): readonly string[] {
  return knownProviders(api).filter((name) => {
    const library = LIBRARIES.get(name);
    return library === undefined || existsSync(join(dirname(libraryPath), library));
  });
}

function knownProviders(api: OrtApi): readonly string[] {
  const names = new BigUint64Array(1);
  const count = new Int32Array(1);
  check(api, api.GetAvailableProviders(names, count));
  const [at = 0n, length = 0] = [names[0], count[0]];
  const view = viewMemory(at, 8 * length);
  const addresses = new BigUint64Array(view.buffer, view.byteOffset, length).slice();
  const found = [...addresses].map(readCString);
  check(api, api.ReleaseAvailableProviders(at, length));
  return found;
}

interface ProviderSettings {
  readonly kind: ProviderKind;
  readonly options: ReadonlyMap<string, string>;
}

/** @throws OnnxRuntimeError when the library lacks it, or its libraries or devices are missing */
export function appendProvider(api: OrtApi, settings: Address, provider: ProviderSettings): void {
  if (provider.kind === "openvino") {
    appendOpenvino(api, settings, provider);
    return;
  }
  loadCudnn();
  try {
    withFoundLibraries(() => append(api, settings, provider));
  } catch (error) {
    throw explainMissing(error);
  }
}

/** It takes its options as texts, without an object of its own. */
function appendOpenvino(api: OrtApi, settings: Address, { options }: ProviderSettings): void {
  const [keys, values] = [[...options.keys()].map(cString), [...options.values()].map(cString)];
  const addresses = (texts: readonly Uint8Array[]): BigUint64Array => BigUint64Array.from(texts, addressOf);
  const append = api.SessionOptionsAppendExecutionProvider_OpenVINO_V2;
  check(api, append(settings, addresses(keys), addresses(values), options.size));
}

function append(api: OrtApi, settings: Address, { kind, options }: ProviderSettings): void {
  if (kind === "openvino") throw new RangeError("OpenVINO's provider has no options object");
  const calls = callsOf(api, kind);
  const out = new BigUint64Array(1);
  check(api, calls.create(out));
  const provider = out[0] ?? 0n;
  try {
    const keys = [...options.keys()].map(cString);
    const values = [...options.values()].map(cString);
    const addresses = (texts: readonly Uint8Array[]): BigUint64Array => BigUint64Array.from(texts, addressOf);
    check(api, calls.update(provider, addresses(keys), addresses(values), keys.length));
    check(api, calls.append(settings, provider));
  } finally {
    calls.release(provider);
  }
}

/**
 * Adds installation advice to errors about missing NVIDIA libraries, which only quote the linker. Other errors pass
 * unchanged.
 */
export function explainMissing(error: unknown): unknown {
  const library = missingLibrary(error);
  if (!(error instanceof OnnxRuntimeError) || library === undefined) return error;
  const advice =
    `${library} is neither on the linker's path nor where CUDA's libraries are looked for: install the package that ` +
    "has it (pip install nvidia-...), or name its folder in NEREID_CUDA_LIBRARIES or LD_LIBRARY_PATH";
  return new OnnxRuntimeError(error.code, `${error.message.trim()}: ${advice}`);
}
