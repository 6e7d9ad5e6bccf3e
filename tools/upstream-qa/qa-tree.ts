/** Puts together the folder /opt/tritonserver of the suites, as Dockerfile.QA of the server repository does. */
import { existsSync } from "node:fs";
import { chmod, cp, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { substituteKinds } from "./substitute.ts";

const EXAMPLES = "docs/examples/model_repository";
const TEST_MODELS = "src/test/models";

type Copy = readonly [from: string, to: string];

/** Suites that get models of the documentation. `densenet_onnx` is left out: its weights are a download. */
const EXAMPLE_MODELS: Readonly<Record<string, readonly string[]>> = {
  "L0_simple_example/models": ["simple"],
  "L0_simple_go_client/models": ["simple"],
  "L0_simple_nodejs_client/models": ["simple"],
  "L0_backend_release/simple_models": ["simple"],
  "L0_backend_release/simple_seq_models": ["simple_sequence"],
  "L0_shared_memory/models": ["simple"],
  "L0_cuda_shared_memory/models": ["simple"],
  "L0_grpc/models": [
    "simple",
    "simple_dyna_sequence",
    "simple_int8",
    "simple_identity",
    "simple_sequence",
    "simple_string",
  ],
  "L0_http/models": ["simple", "simple_dyna_sequence", "simple_identity", "simple_sequence", "simple_string"],
  "L0_https/models": ["simple"],
  "L0_secure_grpc/models": ["simple"],
  "L0_data_compression/models": ["simple"],
};
const OTHER_COPIES: readonly Copy[] = [
  [`${TEST_MODELS}/repeat_int32`, "L0_decoupled/models/repeat_int32"],
  [`${TEST_MODELS}/square_int32`, "L0_decoupled/models/square_int32"],
  [`${TEST_MODELS}/repeat_int32`, "L0_grpc_state_cleanup/models/repeat_int32"],
  [`${TEST_MODELS}/identity_fp32`, "L0_backend_identity/models/identity_fp32"],
  [`${EXAMPLES}/simple/1/model.onnx`, "L0_simple_ensemble/models/simple/1/model.onnx"],
  [`${EXAMPLES}/simple/1/model.onnx`, "L0_simple_ensemble/models/simple/2/model.onnx"],
  [`${EXAMPLES}/simple/1/model.onnx`, "L0_socket/models/simple/1/model.onnx"],
];
const DECOUPLED_EXAMPLES = "python_backend/examples/decoupled";
const SIBLING_COPIES: readonly Copy[] = [
  ["client/src/python/examples", "clients"],
  ...["repeat", "square"].flatMap((name): readonly Copy[] => [
    [`${DECOUPLED_EXAMPLES}/${name}_model.py`, `L0_decoupled/python_models/${name}_int32/1/${name}_model.py`],
    [`${DECOUPLED_EXAMPLES}/${name}_config.pbtxt`, `L0_decoupled/python_models/${name}_int32/${name}_config.pbtxt`],
  ]),
];
/** Places of the libraries of test backends, which are built from NVIDIA's sources. */
const LIBRARIES: readonly string[] = [
  "custom_models/custom_sequence_int32/1/libtriton_sequence.so",
  "custom_models/custom_dyna_sequence_int32/1/libtriton_dyna_sequence.so",
  "L0_query/models/query/1/libtriton_query.so",
  "L0_iterative_sequence/models/iterative_sequence/1/libtriton_iterative_sequence.so",
  "L0_implicit_state/libtriton_implicit_state.so",
  "L0_lifecycle/libtriton_identity.so",
  "L0_model_config/libtriton_repeat.so",
  "L0_decoupled/models/repeat_int32/1/libtriton_repeat.so",
  "L0_decoupled/models/square_int32/1/libtriton_square.so",
  "L0_grpc_state_cleanup/models/repeat_int32/1/libtriton_repeat.so",
  "L0_repoagent_checksum/models/identity_int32/1/libtriton_identity.so",
  "L0_passive_instance/models/distributed_int32_int32_int32/1/libtriton_distributed_addsub.so",
];
const VERSION_FOLDERS: readonly string[] = [
  ...["identity_int32", "simple_repeat", "fan_repeat", "sequence_repeat", "repeat_square", "nested_square"].map(
    (name) => `L0_decoupled/models/${name}/1`,
  ),
  "L0_backend_identity/models/identity_fp32/1",
];
/** Backends that scripts look for by the file of their library. They are built in here, so the files are empty. */
const BUILT_IN = ["onnxruntime", "python"];
/** Backends of libraries; without one, the server's own backend of that name answers. */
const BACKENDS = ["identity", "repeat", "square", "sequence", "dyna_sequence"];

/** There is no network in the sandbox; packages are installed before. A suite that needs another one fails where it uses it. */
const PIP = '#!/bin/sh\necho "pip is left out: $*"\n';

export interface TreeSource {
  readonly source: string;
  readonly work: string;
  /** A folder with clones of the siblings; undefined: suites that need them fail where they look for them. */
  readonly siblings: string | undefined;
  /** A folder with `libtriton_<name>.so` of the test backends; undefined: none are used. */
  readonly libraries: string | undefined;
  /** The program that the suites start. */
  readonly server: string;
}

/** Made anew at each run. Returns the folder. */
export async function buildQaTree({ source, work, siblings, libraries, server: program }: TreeSource): Promise<string> {
  const tree = join(work, "tritonserver");
  const qa = join(tree, "qa");
  await rm(tree, { recursive: true, force: true });
  await cp(join(source, "qa"), qa, { recursive: true });
  for (const [to, models] of Object.entries(EXAMPLE_MODELS)) {
    for (const model of models) await copy(join(source, EXAMPLES, model), join(qa, to, model));
  }
  for (const [from, to] of OTHER_COPIES) await copy(join(source, from), join(qa, to));
  if (siblings !== undefined) {
    for (const [from, to] of SIBLING_COPIES) await copy(join(resolve(siblings), from), join(qa, to));
  }
  await addPythonClients(join(qa, "clients"));
  for (const folder of VERSION_FOLDERS) await mkdir(join(qa, folder), { recursive: true });
  for (const path of LIBRARIES) await addLibrary(libraries, join(qa, path));
  await copy(join(qa, "L0_decoupled", "models"), join(qa, "L0_decoupled", "python_models"));
  for (const name of BUILT_IN) await writeNew(join(tree, "backends", name, `libtriton_${name}.so`), "");
  for (const name of BACKENDS) await addLibrary(libraries, join(tree, "backends", name, `libtriton_${name}.so`));
  await substituteKinds(qa);
  for (const script of await readdir(qa)) {
    if (existsSync(join(qa, script, "test.sh"))) await chmod(join(qa, script, "test.sh"), 0o755);
  }
  for (const name of ["pip", "pip3"]) await writeProgram(join(tree, "shims", name), PIP);
  const server = join(tree, "bin", "tritonserver");
  await writeProgram(server, `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`);
  return tree;
}

/** An empty file would be loaded before the backend that is built in. */
async function addLibrary(libraries: string | undefined, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  if (libraries === undefined) return;
  const built = join(resolve(libraries), basename(path));
  if (existsSync(built)) await cp(built, path);
}

async function copy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await cp(from, to, { recursive: true });
}

/** Example clients exist in C++ and in Python under one name; the Python ones take the place of the programs. */
async function addPythonClients(folder: string): Promise<void> {
  if (!existsSync(folder)) return;
  for (const name of await readdir(folder)) {
    if (!name.endsWith(".py")) continue;
    await writeProgram(join(folder, name.slice(0, -".py".length)), `#!/bin/sh\nexec python3 "$0.py" "$@"\n`);
  }
}

async function writeProgram(path: string, text: string): Promise<void> {
  await writeNew(path, text);
  await chmod(path, 0o755);
}

async function writeNew(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}
