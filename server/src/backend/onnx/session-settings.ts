/** Maps a model's configuration and the backend's settings to ONNX Runtime's options. Pure: it calls nothing. */
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { ProviderOptions, RuntimeOptions, SessionOptions } from "../../native/onnxruntime/onnxruntime.ts";

type Settings = ReadonlyMap<string, string>;

const DEVICE_ALLOCATOR = "session.use_device_allocator_for_initializers";
const ARENA_SHRINKAGE = "memory.enable_memory_arena_shrinkage";

/**
 * Threads that wait for work by spinning burn whole cores that the rest of the server could use; letting them sleep costs
 * some microseconds a run.
 */
const NO_SPINNING: readonly (readonly [string, string])[] = [
  ["session.intra_op.allow_spinning", "0"],
  ["session.inter_op.allow_spinning", "0"],
];

/** @throws ServerError when a value is no number, no boolean or unknown */
export function sessionOptions(config: ModelConfig, numCores: number): SessionOptions {
  const isParallel = executionMode(config) === 1;
  const intraOpThreads = integer(config, "intra_op_thread_count");
  const interOpThreads = integer(config, "inter_op_thread_count");
  const share = threadsOfOne(config, numCores);
  const deviceAllocator = config.parameters[DEVICE_ALLOCATOR]?.string_value;
  const shrinkage = config.parameters[ARENA_SHRINKAGE]?.string_value;
  return {
    graphLevel: graphLevel(config.optimization?.graph?.level ?? 0),
    isParallel,
    intraOpThreads: intraOpThreads > 0 ? intraOpThreads : share,
    interOpThreads: interOpThreads > 0 ? interOpThreads : isParallel ? share : 1,
    memoryArena: boolean(config, "enable_mem_arena"),
    memoryPattern: boolean(config, "enable_mem_pattern"),
    config: new Map(
      deviceAllocator === undefined ? NO_SPINNING : [...NO_SPINNING, [DEVICE_ALLOCATOR, deviceAllocator]],
    ),
    runConfig: new Map(shrinkage === undefined ? [] : [[ARENA_SHRINKAGE, shrinkage]]),
    providers: cpuProviders(config),
    customOpLibraries: config.model_operations?.op_library_filename ?? [],
  };
}

/** @throws ServerError when a value is no number or no boolean */
export function runtimeOptions(settings: Settings): RuntimeOptions {
  const isGlobal = settings.get("enable-global-threadpool");
  if (isGlobal === undefined || !parseBoolean(isGlobal)) return { isVerbose: false };
  const threads = (key: string): number => Math.max(0, parseInteger(settings.get(key) ?? "0"));
  return {
    isVerbose: false,
    globalThreads: { intraOp: threads("intra_op_thread_count"), interOp: threads("inter_op_thread_count") },
  };
}

/**
 * Threads of a GPU session: one for each instance, and one counted for the caller. Each keeps GPU memory, so more only
 * if the configuration asks for them.
 */
export function gpuThreads(config: ModelConfig): number {
  const groups = config.instance_group.filter(({ kind }) => kind === "KIND_GPU");
  const numInstances = groups.reduce((sum, { count }) => sum + count, 0);
  return Math.max(2, integer(config, "intra_op_thread_count") || 1 + numInstances);
}

/** Instances run side by side: each gets its share of the cores, so that together they do not fight for them. */
function threadsOfOne(config: ModelConfig, numCores: number): number {
  const numInstances = config.instance_group.reduce((sum, group) => sum + group.count, 0);
  return Math.max(1, Math.floor(numCores / Math.max(1, numInstances)));
}

function graphLevel(level: number): SessionOptions["graphLevel"] {
  if (level === -1) return 1;
  if (level === 1) return 2;
  return level === 2 ? 0 : 99;
}

function executionMode(config: ModelConfig): number {
  const mode = integer(config, "execution_mode");
  if (mode !== 0 && mode !== 1) {
    throw invalidArgument(
      `Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but got ${mode} .`,
    );
  }
  return mode;
}

/** Accelerators of instances on the CPU, which are OpenVINO alone; those for GPUs do not concern them. */
function cpuProviders(config: ModelConfig): readonly ProviderOptions[] {
  const accelerators = config.optimization?.execution_accelerators?.cpu_execution_accelerator ?? [];
  return accelerators.map(({ name, parameters }) => {
    if (name !== "openvino") throw invalidArgument(`unknown Execution Accelerator '${name}' is requested`);
    return { kind: "openvino", options: new Map([["device_type", "CPU"], ...Object.entries(parameters)]) };
  });
}

function integer(config: ModelConfig, key: string): number {
  const text = config.parameters[key]?.string_value;
  return text === undefined ? 0 : parseInteger(text);
}

function boolean(config: ModelConfig, key: string): boolean | undefined {
  const text = config.parameters[key]?.string_value;
  return text === undefined ? undefined : parseBoolean(text);
}

function parseInteger(text: string): number {
  const value = /^\s*[+-]?\d+\s*$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(value) || Math.abs(value) >= 2 ** 31) {
    throw invalidArgument(`failed to convert '${text}' to integral number`);
  }
  return value;
}

function parseBoolean(text: string): boolean {
  const lower = text.toLowerCase();
  if (["true", "on", "1"].includes(lower)) return true;
  if (["false", "off", "0"].includes(lower)) return false;
  throw invalidArgument(`failed to convert '${text}' to boolean`);
}
