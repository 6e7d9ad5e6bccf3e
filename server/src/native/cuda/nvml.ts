/**
 * NVML: utilisation, memory and power of NVIDIA GPUs. Source: NVIDIA NVML API Reference Guide. Readings run on another
 * thread, because a hanging driver must not stop the server. Knows no metric.
 */

import { type Address, type NativeFunction, openLibrary } from "../ffi.ts";
import { expectCudaLibrary } from "./libraries.ts";

export interface GpuIdentity {
  /** "GPU-..." */
  readonly uuid: string;
  readonly name: string;
}

/** Values that a GPU does not report are undefined. */
export interface GpuReading {
  /** From 0 to 1. */
  readonly utilization: number | undefined;
  readonly totalBytes: number | undefined;
  readonly usedBytes: number | undefined;
  readonly powerWatts: number | undefined;
  readonly powerLimitWatts: number | undefined;
  /** Since the driver was loaded. */
  readonly energyJoules: number | undefined;
}

export interface MonitoredGpu extends GpuIdentity {
  read(): Promise<GpuReading>;
}

export interface Nvml {
  readonly path: string;
  readonly driverVersion: string;
  readonly gpus: readonly MonitoredGpu[];
}

type Call<Args extends unknown[]> = NativeFunction<Args, number>;

interface NvmlCalls {
  readonly init: Call<[]>;
  readonly driverVersion: Call<[Uint8Array, number]>;
  readonly count: Call<[Uint32Array]>;
  readonly handle: Call<[number, BigUint64Array]>;
  readonly uuid: Call<[Address, Uint8Array, number]>;
  readonly name: Call<[Address, Uint8Array, number]>;
  readonly utilization: Call<[Address, Uint32Array]>;
  readonly memory: Call<[Address, BigUint64Array]>;
  readonly power: Call<[Address, Uint32Array]>;
  readonly powerLimit: Call<[Address, Uint32Array]>;
  readonly energy: Call<[Address, BigUint64Array]>;
  readonly errorText: NativeFunction<[number], string>;
}

const MILLI = 1000;
const PERCENT = 100;
const TEXT_BYTES = 96;

/** @throws Error when the library is missing or cannot reach the driver */
export function openNvml(path: string = expectCudaLibrary("nvml")): Nvml {
  const calls = loadCalls(path);
  const check = (status: number, doing: string): void => {
    if (status !== 0) throw new Error(`${doing}: NVML: ${calls.errorText(status)}`);
  };
  check(calls.init(), "starting NVML");
  const version = Buffer.alloc(TEXT_BYTES);
  check(calls.driverVersion(version, TEXT_BYTES), "asking for the version of the driver");
  const count = new Uint32Array(1);
  check(calls.count(count), "counting GPUs");
  const gpus = Array.from({ length: count[0] ?? 0 }, (_, index) => {
    const handle = new BigUint64Array(1);
    check(calls.handle(index, handle), `opening GPU ${index}`);
    const device = handle[0] ?? 0n;
    const [uuid, name] = [Buffer.alloc(TEXT_BYTES), Buffer.alloc(TEXT_BYTES)];
    check(calls.uuid(device, uuid, TEXT_BYTES), `asking GPU ${index} for its id`);
    check(calls.name(device, name, TEXT_BYTES), `asking GPU ${index} for its name`);
    return { uuid: textOf(uuid), name: textOf(name), read: () => read(calls, device) };
  });
  return { path, driverVersion: textOf(version), gpus };
}

async function read(calls: NvmlCalls, device: Address): Promise<GpuReading> {
  // Percent of the last period in which a kernel ran, and in which memory was used; total, free and used bytes.
  const load = await ask(calls.utilization, device, new Uint32Array(2));
  const memory = await ask(calls.memory, device, new BigUint64Array(3));
  const power = await ask(calls.power, device, new Uint32Array(1));
  const powerLimit = await ask(calls.powerLimit, device, new Uint32Array(1));
  const energy = await ask(calls.energy, device, new BigUint64Array(1));
  return {
    utilization: over(load?.[0], PERCENT),
    totalBytes: over(memory?.[0], 1),
    usedBytes: over(memory?.[2], 1),
    powerWatts: over(power?.[0], MILLI),
    powerLimitWatts: over(powerLimit?.[0], MILLI),
    energyJoules: over(energy?.[0], MILLI),
  };
}

/** Undefined when this GPU does not report it. */
function ask<Out>(call: Call<[Address, Out]>, device: Address, out: Out): Promise<Out | undefined> {
  return new Promise((resolve) => {
    call.async(device, out, (error, status) => resolve(error === null && status === 0 ? out : undefined));
  });
}

function over(value: number | bigint | undefined, divisor: number): number | undefined {
  return value === undefined ? undefined : Number(value) / divisor;
}

function textOf(bytes: Buffer): string {
  return bytes.toString("utf8").replace(/\0.*$/s, "");
}

function loadCalls(path: string): NvmlCalls {
  const library = openLibrary(path);
  return {
    init: library.func("nvmlInit_v2", "int", []),
    driverVersion: library.func("nvmlSystemGetDriverVersion", "int", ["void*", "uint"]),
    count: library.func("nvmlDeviceGetCount_v2", "int", ["void*"]),
    handle: library.func("nvmlDeviceGetHandleByIndex_v2", "int", ["uint", "void*"]),
    uuid: library.func("nvmlDeviceGetUUID", "int", ["size_t", "void*", "uint"]),
    name: library.func("nvmlDeviceGetName", "int", ["size_t", "void*", "uint"]),
    utilization: library.func("nvmlDeviceGetUtilizationRates", "int", ["size_t", "void*"]),
    memory: library.func("nvmlDeviceGetMemoryInfo", "int", ["size_t", "void*"]),
    power: library.func("nvmlDeviceGetPowerUsage", "int", ["size_t", "void*"]),
    powerLimit: library.func("nvmlDeviceGetEnforcedPowerLimit", "int", ["size_t", "void*"]),
    energy: library.func("nvmlDeviceGetTotalEnergyConsumption", "int", ["size_t", "void*"]),
    errorText: library.func("nvmlErrorString", "str", ["int"]),
  };
}
