/** The backends of a server, each loaded with the first model that names it. Part of the composition root. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import type { Backend, ModelSource, UsableGpus } from "../backend/backend.ts";
import { lazyBackend } from "../backend/lazy-backend.ts";
import { libraryFirst } from "../backend/native-host/library-first.ts";
import type { RunTurns } from "../backend/native-run/run-turns.ts";
import type { ModelControl } from "../backend/python/questions.ts";
import { refusedBackend } from "../backend/refused/refused-backend.ts";
import { unknownBackend } from "../config/model/model-config.ts";
import { visibleGpus } from "../device/cuda/find-gpus.ts";
import type { SpareHost } from "../engine/host/spare-host.ts";
import { packagedBackend } from "../packages/packaged-backend.ts";
import type { ModelManager } from "../repository/model-manager.ts";
import { isSafeModelName } from "../repository/source/path-containment.ts";
import { usableGpus } from "./gpus.ts";

/** Backends in Python that the server brings. */
const OWN_PYTHON_BACKENDS: readonly string[] = ["vllm", "pytorch"];

/** Stand for libraries that Triton's tests build: such a library in the folder of backends goes before them. */
const STAND_INS: ReadonlySet<string> = new Set(testBackends().map(({ name }) => name));

/**
 * The backends of this program, and those that are a shared library or a `model.py`, found when a model names one. A
 * library in the model's own folders goes before all others, one in the folder of backends before those that this
 * program lacks. Source: triton-inference-server/core, backend_model.cc, `GetBackendRuntimeLibraryName`.
 */
class InstalledBackends extends Map<string, Backend> {
  readonly #directory: string;
  readonly #control: ModelControl;
  /** Names whose backend stays: libraries and files may come later for the others. */
  readonly #settled = new Set<string>();
  /** The backend that runs libraries of a name. */
  readonly #libraries = new Map<string, Backend>();

  constructor(own: readonly Backend[], directory: string, control: ModelControl) {
    super(own.map((backend) => [backend.name, backend]));
    this.#directory = directory;
    this.#control = control;
  }

  override get(name: string): Backend | undefined {
    const known = super.get(name);
    if (this.#settled.has(name) || !isSafeModelName(name)) return known;
    const library = this.#libraries.get(name) ?? libraryBackend(name);
    this.#libraries.set(name, library);
    if (known !== undefined) {
      return this.#settle(libraryFirst(known, library, STAND_INS.has(name) ? this.#directory : undefined));
    }
    if (isPythonBased(name, this.#directory)) {
      return this.#settle(libraryFirst(pythonBackend(name, this.#control), library, this.#directory));
    }
    const refused = refusedBackend(name);
    return refused === undefined ? library : libraryFirst(refused, library, this.#directory);
  }

  #settle(backend: Backend): Backend {
    this.#settled.add(backend.name);
    this.set(backend.name, backend);
    return backend;
  }
}

/** Whether the code of a backend's models is one Python file for all of them. */
export function isPythonBased(name: string, directory: string): boolean {
  return OWN_PYTHON_BACKENDS.includes(name) || (isSafeModelName(name) && existsSync(join(directory, name, "model.py")));
}

/**
 * By the name that users write in `backend:`. `control` serves models that load and unload others; `directory`:
 * `--backend-directory`; `spareHost`: for the first language model.
 */
export function createBackends(
  control: ModelControl,
  directory: string,
  spareHost?: SpareHost,
): ReadonlyMap<string, Backend> {
  const turns = sharedTurns();
  const all = [
    ...onnxBackends(turns),
    ...libraryBackends(turns),
    ...["python", ...OWN_PYTHON_BACKENDS].map((name) => pythonBackend(name, control)),
    ...["llm", "tensorrtllm"].map((name) => llmBackend(name, spareHost)),
    ...plainBackends(),
    packagedBackend("image", "@nereid/images", "image-backend"),
    packagedBackend("retrieval", "@nereid/retrieval", "backend/retrieval-backend"),
    ...testBackends(),
  ];
  return new InstalledBackends(all, directory, control);
}

/** Models end first: callers before those they call. */
export async function closeBackends(manager: ModelManager, backends: ReadonlyMap<string, Backend>): Promise<void> {
  await manager.close();
  await Promise.all([...new Set(backends.values())].map((backend) => backend.close()));
}

type SharedTurns = () => Promise<RunTurns>;

/** Backends with native code share libuv's threads, and the time of the event loop. */
function sharedTurns(): SharedTurns {
  let turns: Promise<RunTurns> | undefined;
  const create = async (): Promise<RunTurns> => (await import("../backend/native-run/run-turns.ts")).newRunTurns();
  return () => {
    turns ??= create();
    return turns;
  };
}

/** Models that the libraries of Python packages compute. */
function libraryBackends(turns: SharedTurns): Backend[] {
  return [
    lazyBackend("fil", async () =>
      (await import("../backend/fil/fil-backend.ts")).createFilBackend({ turns: await turns() }),
    ),
    lazyBackend("openvino", async () =>
      (await import("../backend/openvino/openvino-backend.ts")).createOpenvinoBackend({ turns: await turns() }),
    ),
  ];
}

/** Both run on the same threads and share their turns, so one call makes both. */
function onnxBackends(turns: SharedTurns): Backend[] {
  let both: Promise<readonly Backend[]> | undefined;
  const create = async (): Promise<readonly Backend[]> => {
    const { createOnnxBackends } = await import("../backend/onnx/onnx-backend.ts");
    return createOnnxBackends(usableGpus, await turns());
  };
  return ["onnxruntime", "tensorrt"].map((name) =>
    lazyBackend(name, async () => {
      both ??= create();
      const found = (await both).find((backend) => backend.name === name);
      if (found === undefined) throw new RangeError(`createOnnxBackends() makes no backend ${name}`);
      return found;
    }),
  );
}

function pythonBackend(name: string, control: ModelControl): Backend {
  const open = async (): Promise<Backend> => {
    const { createPythonBackend } = await import("../backend/python/python-backend.ts");
    return createPythonBackend({ control, findGpus: allGpus, ...(name === "python" ? {} : { name }) });
  };
  return lazyBackend(name, open, ENGINE_FOLDER_BACKENDS.has(name) ? ownEngine : undefined);
}

/** Models whose backend is a shared library for Triton. */
function libraryBackend(name: string): Backend {
  const open = async (): Promise<Backend> => {
    const { createNativeHostBackend } = await import("../backend/native-host/native-host-backend.ts");
    return createNativeHostBackend(name, { findGpus: allGpus, missing: unknownBackend });
  };
  return lazyBackend(name, open, undefined, { findsRuntime: true });
}

const ENGINE_FOLDER_BACKENDS: ReadonlySet<string> = new Set(["python", "vllm"]);

/** Folders for TensorRT-LLM's LLM API and for vLLM run on our engine, unless they ask for their own program. */
async function ownEngine(source: ModelSource): Promise<Backend | undefined> {
  const { engineFolderKind } = await import("../backend/text-llm/engine-folder.ts");
  const kind = engineFolderKind(source, process.env);
  if (kind === undefined) return undefined;
  const { createTextLlmBackend } = await import("../backend/text-llm/text-llm-backend.ts");
  return createTextLlmBackend(kind, { findGpus: usableGpus });
}

let seenGpus: UsableGpus | undefined;

/** Python models bring their own code: any GPU will do. */
function allGpus(): UsableGpus {
  seenGpus ??= { ids: visibleGpus().map(({ ordinal }) => ordinal), minComputeCapability: 0 };
  return seenGpus;
}

function llmBackend(name: string, spare: SpareHost | undefined): Backend {
  return lazyBackend(name, async () => {
    const { createLlmBackend } = await import("../backend/llm/llm-backend.ts");
    return createLlmBackend(name === "llm" ? "llm" : "tensorrtllm", { spare }, usableGpus);
  });
}

function plainBackends(): Backend[] {
  return [
    lazyBackend("typescript", async () =>
      (await import("../backend/typescript/typescript-backend.ts")).createTypescriptBackend(),
    ),
    lazyBackend("tokenizer", async () =>
      (await import("../backend/tokenizer/tokenizer-backend.ts")).createTokenizerBackend(),
    ),
    lazyBackend("pooling", async () => (await import("../backend/pooling/pooling-backend.ts")).createPoolingBackend()),
    lazyBackend("encoder", async () => (await import("../backend/encoder/encoder-backend.ts")).createEncoderBackend()),
    lazyBackend("fault", async () => (await import("../backend/fault/fault-backend.ts")).createFaultBackend()),
    lazyBackend("bls", async () => (await import("../backend/bls/bls-backend.ts")).createBlsBackend()),
  ];
}

/** Models of Triton's own tests and examples. */
function testBackends(): Backend[] {
  return [
    lazyBackend("identity", async () => (await import("../backend/testing/identity.ts")).createIdentityBackend()),
    lazyBackend("repeat", async () => (await import("../backend/testing/repeat.ts")).createRepeatBackend()),
    lazyBackend("square", async () => (await import("../backend/testing/square.ts")).createSquareBackend()),
    lazyBackend("sequence", async () => (await import("../backend/testing/sequence.ts")).createSequenceBackend()),
    lazyBackend("dyna_sequence", async () =>
      (await import("../backend/testing/dyna-sequence.ts")).createDynaSequenceBackend(),
    ),
    lazyBackend("iterative_sequence", async () =>
      (await import("../backend/testing/iterative-sequence.ts")).createIterativeSequenceBackend(),
    ),
    lazyBackend("query", async () => (await import("../backend/testing/query.ts")).createQueryBackend()),
    lazyBackend("distributed_addsub", async () =>
      (await import("../backend/testing/distributed-addsub.ts")).createDistributedAddsubBackend(),
    ),
    lazyBackend("implicit_state", async () =>
      (await import("../backend/testing/implicit-state.ts")).createImplicitStateBackend(),
    ),
  ];
}
