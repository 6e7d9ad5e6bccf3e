/**
 * The ONNX Runtime environment of this process, and its sessions. Source: onnxruntime_c_api.h. Does not know the use of
 * a model.
 */
import process from "node:process";
import { type Address, cString } from "../ffi.ts";
import { findLibrary, type LibrarySpec } from "../library.ts";
import { loadOrtApi, type OrtApi, type Status } from "./api.ts";
import type { FrameContext } from "./frame.ts";
import { readModelInfo } from "./info.ts";
import { FloatMatmul, MATMUL_MODEL } from "./matmul-session.ts";
import { appendProvider, availableProviders, type ProviderKind } from "./providers.ts";
import { OnnxSession } from "./session.ts";
import { OwnThreads, type StartRun, startInPool } from "./start.ts";
import { check } from "./status.ts";

export interface RuntimeOptions {
  /** One thread pool for all sessions; 0 threads = one per core. Without it each session has its own. */
  readonly globalThreads?: { readonly intraOp: number; readonly interOp: number } | undefined;
  /** Prints ONNX Runtime's log to stderr; off by default, since every failure is returned as an error. */
  readonly isVerbose: boolean;
}

/** An execution provider, and its options by ONNX Runtime's names. */
export interface ProviderOptions {
  readonly kind: ProviderKind;
  readonly options: ReadonlyMap<string, string>;
}

export interface SessionOptions {
  /** Graph optimisation level: 0 none, 1 basic, 2 extended, 99 all. */
  readonly graphLevel: 0 | 1 | 2 | 99;
  readonly isParallel: boolean;
  /** 0: one thread per core. */
  readonly intraOpThreads: number;
  readonly interOpThreads: number;
  readonly memoryArena?: boolean | undefined;
  readonly memoryPattern?: boolean | undefined;
  /** Session settings by their ONNX Runtime name. */
  readonly config: ReadonlyMap<string, string>;
  /** Settings of every run, by their ONNX Runtime name. */
  readonly runConfig: ReadonlyMap<string, string>;
  readonly customOpLibraries: readonly string[];
  /** Execution providers, best first; unsupported nodes run on the CPU. */
  readonly providers?: readonly ProviderOptions[] | undefined;
  /** Asynchronous runs use the session's intra-op threads, two or more, instead of libuv's. */
  readonly runsOnOwnThreads?: boolean | undefined;
  /** The optimised model is also written here. */
  readonly optimizedModelPath?: string | undefined;
}

const PRODUCT_SESSION: SessionOptions = {
  graphLevel: 99,
  isParallel: false,
  intraOpThreads: 1,
  interOpThreads: 1,
  memoryPattern: false,
  // Idle intra-op threads must not spin: other threads have work.
  config: new Map([["session.intra_op.allow_spinning", "0"]]),
  runConfig: new Map(),
  customOpLibraries: [],
};
const LOG_VERBOSE = 0;
const LOG_FATAL = 4;
const ARENA_ALLOCATOR = 1;
const MEMORY_TYPE_DEFAULT = 0;

/** Library packages by platform. */
export function onnxRuntimeLibrary(platform: string, arch: string): LibrarySpec {
  return {
    title: "ONNX Runtime",
    override: "NEREID_ONNXRUNTIME_LIB",
    fileName: "libonnxruntime.so.1",
    packages: [
      { name: `@nereid/onnxruntime-${platform}-${arch}`, folders: ["."] },
      { name: "onnxruntime-node", folders: [`bin/napi-v*/${platform}/${arch}`] },
    ],
  };
}

export class OnnxRuntime {
  /** Version of the library, and its file. */
  readonly version: string;
  readonly path: string;
  /** Available execution providers, by ONNX Runtime's names: "CPUExecutionProvider" and others. */
  readonly providers: readonly string[];
  readonly #context: FrameContext;
  readonly #environment: Address;
  readonly #hasGlobalThreads: boolean;
  readonly #startInPool: StartRun;
  #ownThreads: OwnThreads | undefined;

  /** @throws Error naming all searched locations, when there is no library */
  constructor(
    options: RuntimeOptions,
    libraryPath: string = findLibrary(onnxRuntimeLibrary(process.platform, process.arch)),
  ) {
    // Disable telemetry: with an environment, the library reports its use to its vendor and buffers unsent events.
    process.env.ORT_DISABLE_TELEMETRY = "1";
    const { api, version } = loadOrtApi(libraryPath);
    this.version = version;
    this.path = libraryPath;
    this.providers = availableProviders(api, libraryPath);
    this.#hasGlobalThreads = options.globalThreads !== undefined;
    this.#startInPool = startInPool(api);
    this.#environment = createEnvironment(api, options);
    check(api, api.DisableTelemetryEvents(this.#environment));
    this.#context = {
      api,
      cpuMemory: created(api, (out) => api.CreateCpuMemoryInfo(ARENA_ALLOCATOR, MEMORY_TYPE_DEFAULT, out)),
      allocator: created(api, (out) => api.GetAllocatorWithDefaultOptions(out)),
    };
  }

  /** Loads a model file on another thread. @throws OnnxRuntimeError when the model is refused */
  async createSession(modelPath: string, options: SessionOptions): Promise<OnnxSession> {
    const { api } = this.#context;
    const settings = this.#createSettings(options);
    try {
      const path = cString(modelPath);
      const out = new BigUint64Array(1);
      const status = await new Promise<Status>((resolve, reject) => {
        api.CreateSession.async(this.#environment, path, settings, out, (error, result) => {
          if (error === null) resolve(result);
          else reject(error);
        });
      });
      check(api, status);
      return this.#adopt(out[0] ?? 0n, options);
    } finally {
      api.ReleaseSessionOptions(settings);
    }
  }

  /** FP32 GEMMs on caller-owned memory; the caller closes it. */
  createFloatMatmul(numThreads: number): FloatMatmul {
    const { api } = this.#context;
    const settings = this.#createSettings({ ...PRODUCT_SESSION, intraOpThreads: numThreads });
    try {
      const model = MATMUL_MODEL;
      const session = created(api, (out) =>
        api.CreateSessionFromArray(this.#environment, model, model.byteLength, settings, out),
      );
      return new FloatMatmul(this.#context, session);
    } finally {
      api.ReleaseSessionOptions(settings);
    }
  }

  /** Frees the shared resources; sessions must be closed before. */
  close(): void {
    const { api, cpuMemory } = this.#context;
    this.#ownThreads?.close();
    api.ReleaseMemoryInfo(cpuMemory);
    api.ReleaseEnv(this.#environment);
  }

  #adopt(session: Address, { runConfig, runsOnOwnThreads = false }: SessionOptions): OnnxSession {
    const { api, allocator } = this.#context;
    try {
      const start = runsOnOwnThreads && !this.#hasGlobalThreads ? this.#onOwnThreads() : this.#startInPool;
      return new OnnxSession(this.#context, session, readModelInfo(api, allocator, session), { runConfig, start });
    } catch (error) {
      api.ReleaseSession(session);
      throw error;
    }
  }

  #onOwnThreads(): StartRun {
    this.#ownThreads ??= new OwnThreads(this.#context.api);
    return this.#ownThreads.start;
  }

  #createSettings(options: SessionOptions): Address {
    const { api } = this.#context;
    const settings = created(api, (out) => api.CreateSessionOptions(out));
    try {
      check(api, api.SetSessionGraphOptimizationLevel(settings, options.graphLevel));
      check(api, api.SetSessionExecutionMode(settings, options.isParallel ? 1 : 0));
      this.#setThreads(settings, options);
      applySwitch(api, options.memoryArena, api.EnableCpuMemArena, api.DisableCpuMemArena, settings);
      applySwitch(api, options.memoryPattern, api.EnableMemPattern, api.DisableMemPattern, settings);
      for (const [key, value] of options.config) {
        check(api, api.AddSessionConfigEntry(settings, cString(key), cString(value)));
      }
      if (options.optimizedModelPath !== undefined) {
        check(api, api.SetOptimizedModelFilePath(settings, cString(options.optimizedModelPath)));
      }
      for (const provider of options.providers ?? []) appendProvider(api, settings, provider);
      for (const path of options.customOpLibraries) {
        check(api, api.RegisterCustomOpsLibrary_V2(settings, cString(path)));
      }
      return settings;
    } catch (error) {
      api.ReleaseSessionOptions(settings);
      throw error;
    }
  }

  #setThreads(settings: Address, options: SessionOptions): void {
    const { api } = this.#context;
    if (this.#hasGlobalThreads) {
      check(api, api.DisablePerSessionThreads(settings));
      return;
    }
    check(api, api.SetIntraOpNumThreads(settings, options.intraOpThreads));
    check(api, api.SetInterOpNumThreads(settings, options.interOpThreads));
  }
}

function createEnvironment(api: OrtApi, { globalThreads, isVerbose }: RuntimeOptions): Address {
  const severity = isVerbose ? LOG_VERBOSE : LOG_FATAL;
  const logId = cString("onnxruntime");
  if (globalThreads === undefined) return created(api, (out) => api.CreateEnv(severity, logId, out));
  const threading = created(api, (out) => api.CreateThreadingOptions(out));
  try {
    check(api, api.SetGlobalIntraOpNumThreads(threading, globalThreads.intraOp));
    check(api, api.SetGlobalInterOpNumThreads(threading, globalThreads.interOp));
    check(api, api.SetGlobalSpinControl(threading, 0));
    return created(api, (out) => api.CreateEnvWithGlobalThreadPools(severity, logId, threading, out));
  } finally {
    api.ReleaseThreadingOptions(threading);
  }
}

function applySwitch(
  api: OrtApi,
  isOn: boolean | undefined,
  enable: OrtApi["EnableMemPattern"],
  disable: OrtApi["DisableMemPattern"],
  settings: Address,
): void {
  if (isOn !== undefined) check(api, isOn ? enable(settings) : disable(settings));
}

/** Calls a function that creates one object, and returns the object. */
function created(api: OrtApi, make: (out: BigUint64Array) => Status): Address {
  const out = new BigUint64Array(1);
  check(api, make(out));
  return out[0] ?? 0n;
}
