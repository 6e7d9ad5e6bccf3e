/** ONNX Runtime in this process: its environment and how sessions are made. Does not know what a model is used for. */
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
  /** One pool of threads for all sessions; 0 threads = as many as cores. Without it each session has its own. */
  readonly globalThreads?: { readonly intraOp: number; readonly interOp: number } | undefined;
  /** Prints all that ONNX Runtime has to say, on stderr; else nothing, since every failure comes back as an error. */
  readonly isVerbose: boolean;
}

/** A device to run on, and what it is told by ONNX Runtime's names. */
export interface ProviderOptions {
  readonly kind: ProviderKind;
  readonly options: ReadonlyMap<string, string>;
}

export interface SessionOptions {
  /** 0 none, 1 basic, 2 extended, 99 all. */
  readonly graphLevel: 0 | 1 | 2 | 99;
  readonly isParallel: boolean;
  /** 0 = as many as cores. */
  readonly intraOpThreads: number;
  readonly interOpThreads: number;
  readonly memoryArena?: boolean | undefined;
  readonly memoryPattern?: boolean | undefined;
  /** Session settings by their ONNX Runtime name. */
  readonly config: ReadonlyMap<string, string>;
  /** Settings of every run, by their ONNX Runtime name. */
  readonly runConfig: ReadonlyMap<string, string>;
  readonly customOpLibraries: readonly string[];
  /** Devices to run on, best first; what none of them takes runs on the CPU. */
  readonly providers?: readonly ProviderOptions[] | undefined;
  /** Runs that block nobody are made on the session's intra-op threads, two or more, and not on libuv's. */
  readonly runsOnOwnThreads?: boolean | undefined;
  /** The model is also written here, as it is after optimisation. */
  readonly optimizedModelPath?: string | undefined;
}

const PRODUCT_SESSION: SessionOptions = {
  graphLevel: 99,
  isParallel: false,
  intraOpThreads: 1,
  interOpThreads: 1,
  memoryPattern: false,
  // Between two products other threads have work.
  config: new Map([["session.intra_op.allow_spinning", "0"]]),
  runConfig: new Map(),
  customOpLibraries: [],
};
const LOG_VERBOSE = 0;
const LOG_FATAL = 4;
const ARENA_ALLOCATOR = 1;
const MEMORY_TYPE_DEFAULT = 0;

/** Where the library comes from on a platform. */
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
  /** Release of the library, and its file. */
  readonly version: string;
  readonly path: string;
  /** What it can run on, by ONNX Runtime's names: "CPUExecutionProvider" and others. */
  readonly providers: readonly string[];
  readonly #context: FrameContext;
  readonly #environment: Address;
  readonly #hasGlobalThreads: boolean;
  readonly #startInPool: StartRun;
  #ownThreads: OwnThreads | undefined;

  /** @throws Error naming every place searched, when there is no library */
  constructor(
    options: RuntimeOptions,
    libraryPath: string = findLibrary(onnxRuntimeLibrary(process.platform, process.arch)),
  ) {
    // The library reports its use to its maker, from the moment it has an environment, and keeps what it cannot send.
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

  /** Products of floats on memory of the caller's, who closes it. */
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

  /** Frees what the sessions shared; they are closed before. */
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

/** Runs a call that makes one object, and gives the object. */
function created(api: OrtApi, make: (out: BigUint64Array) => Status): Address {
  const out = new BigUint64Array(1);
  check(api, make(out));
  return out[0] ?? 0n;
}
