/** Makes the models of the suites with upstream's own generators (qa/common/gen_qa_*.py) and the onnx package. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { substituteKinds } from "./substitute.ts";

const run = promisify(execFile);
const ALIASES = fileURLToPath(new URL("python/alias_models.py", import.meta.url));
const TIMEOUT_MS = 1_200_000;
/** Clients and test runners of the suites, and the generators' libraries. */
const REQUIREMENTS = [
  // As in gen_qa_model_repository.
  "onnx==1.20.1",
  "tritonclient[all]",
  "numpy<2",
  "pytest",
  "requests",
  "aiohttp",
  "pillow",
  "psutil",
  "prettytable",
  "future",
  "six",
  "sseclient-py",
];

type Generator = readonly [script: string, folder: string, ...flags: string[]];

const GENERATORS: readonly Generator[] = [
  ["gen_qa_models.py", "qa_model_repository", "--onnx"],
  ["gen_qa_models.py", "qa_variable_model_repository", "--onnx", "--variable"],
  ["gen_qa_identity_models.py", "qa_identity_model_repository", "--onnx"],
  ["gen_qa_reshape_models.py", "qa_reshape_model_repository", "--onnx", "--variable"],
  ["gen_qa_sequence_models.py", "qa_sequence_model_repository", "--onnx"],
  ["gen_qa_sequence_models.py", "qa_variable_sequence_model_repository", "--onnx", "--variable"],
  ["gen_qa_implicit_models.py", "qa_sequence_implicit_model_repository", "--onnx"],
  ["gen_qa_implicit_models.py", "qa_variable_sequence_implicit_model_repository", "--onnx", "--variable"],
  [
    "gen_qa_implicit_models.py",
    "qa_sequence_initial_state_implicit_model_repository",
    "--onnx",
    "--initial-state",
    "zero",
  ],
  [
    "gen_qa_implicit_models.py",
    "qa_variable_sequence_initial_state_implicit_model_repository",
    "--onnx",
    "--initial-state",
    "zero",
    "--variable",
  ],
  ["gen_qa_dyna_sequence_models.py", "qa_dyna_sequence_model_repository", "--onnx"],
  ["gen_qa_dyna_sequence_implicit_models.py", "qa_dyna_sequence_implicit_model_repository", "--onnx"],
  ["gen_qa_ragged_models.py", "qa_ragged_model_repository", "--onnx"],
  ["gen_qa_ort_scalar_models.py", "qa_scalar_models"],
  ["gen_qa_models.py", "qa_ensemble_model_repository/qa_model_repository", "--ensemble"],
  ["gen_qa_models.py", "qa_ensemble_model_repository/qa_variable_model_repository", "--ensemble", "--variable"],
  ["gen_qa_reshape_models.py", "qa_ensemble_model_repository/qa_reshape_model_repository", "--ensemble"],
  ["gen_qa_identity_models.py", "qa_ensemble_model_repository/qa_identity_model_repository", "--ensemble"],
  ["gen_qa_sequence_models.py", "qa_ensemble_model_repository/qa_sequence_model_repository", "--ensemble"],
  [
    "gen_qa_sequence_models.py",
    "qa_ensemble_model_repository/qa_variable_sequence_model_repository",
    "--ensemble",
    "--variable",
  ],
];
/** The generators of these take no operator set. */
const WITHOUT_OPSET = new Set(["--ensemble"]);

/** ONNX Runtime adds BF16 on GPUs only, and a server with such a model would not start. */
const WITHOUT_CPU_KERNEL = /^onnx_(nobatch_)?bf16_bf16_bf16$/;

export interface QaModels {
  /** The interpreter of the generators and of the tests. */
  readonly python: string;
  /** The folder that the suites find as /data/inferenceserver/VERSION. */
  readonly models: string;
}

/** Made once for a working folder. @throws Error when a package cannot be installed or a generator fails */
export async function buildQaModels(source: string, work: string): Promise<QaModels> {
  const python = await venv(join(work, "venv"));
  const models = join(work, "models");
  if (existsSync(join(models, "done"))) return { python, models };
  await rm(models, { recursive: true, force: true });
  const scripts = join(work, "generators");
  await cp(join(source, "qa", "common"), scripts, { recursive: true });
  for (const [script, folder, ...flags] of GENERATORS) {
    const target = join(models, folder);
    await mkdir(target, { recursive: true });
    const opset = flags.some((flag) => WITHOUT_OPSET.has(flag)) ? [] : ["--onnx_opset=0"];
    process.stdout.write(`making ${folder}\n`);
    await run(python, [script, ...flags, ...opset, `--models_dir=${target}`], {
      cwd: scripts,
      timeout: TIMEOUT_MS,
      maxBuffer: 1e8,
    });
  }
  await removeModels(models, WITHOUT_CPU_KERNEL);
  const folders = (await readdir(models)).map((name) => join(models, name));
  await run(python, [ALIASES, join(source, "qa", "python_models", "add_sub", "model.py"), ...folders], {
    timeout: TIMEOUT_MS,
  });
  await substituteKinds(models);
  await writeFile(join(models, "done"), "");
  return { python, models };
}

async function removeModels(folder: string, pattern: RegExp): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory() && pattern.test(entry.name)) {
      await rm(join(entry.parentPath, entry.name), { recursive: true, force: true });
    }
  }
}

async function venv(folder: string): Promise<string> {
  const python = join(folder, "bin", "python3");
  if (existsSync(join(folder, "done"))) return python;
  await rm(folder, { recursive: true, force: true });
  await run("python3", ["-m", "venv", folder], { timeout: TIMEOUT_MS });
  await run(python, ["-m", "pip", "install", "-q", ...REQUIREMENTS], { timeout: TIMEOUT_MS });
  await writeFile(join(folder, "done"), "");
  return python;
}
