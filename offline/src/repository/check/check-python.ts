/** Checks Python models: interpreter with numpy, syntax of the models, installed imports. Runs no model. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { modelFile, readSettings } from "@nereid/server/backend/python/settings";
import type { ModelConfig } from "@nereid/server/core/model-config";
import type { ExaminedModel } from "./examined-model.ts";
import { PYTHON_PROBE } from "./python-probe.ts";

const TIMEOUT_MS = 60_000;
const MAX_ANSWER_BYTES = 1 << 20;

interface ProbeAnswer {
  readonly version: string;
  readonly numpy: boolean;
  readonly error?: { readonly line: number; readonly message: string };
  readonly hasClass: boolean;
  readonly missing: readonly { readonly line: number; readonly module: string; readonly certain: boolean }[];
}

export async function checkPython(model: ExaminedModel, config: ModelConfig, versionFolder: string): Promise<void> {
  let file: string;
  let interpreter: string;
  try {
    file = join(versionFolder, modelFile(config));
    interpreter = readSettings(new Map(), config, model.path, process.env).interpreter;
  } catch (error) {
    model.addServerError(error);
    return;
  }
  if (!existsSync(file)) {
    model.add(
      "error",
      "the model's Python file is not there",
      `Put model.py with a class TritonPythonModel at ${file}`,
      { file },
    );
    return;
  }
  const answer = await probe(model, interpreter, file);
  if (answer !== undefined) report(model, interpreter, file, answer);
}

async function probe(model: ExaminedModel, interpreter: string, file: string): Promise<ProbeAnswer | undefined> {
  const options = { timeout: TIMEOUT_MS, maxBuffer: MAX_ANSWER_BYTES };
  try {
    const { stdout } = await promisify(execFile)(interpreter, ["-c", PYTHON_PROBE, file], options);
    return JSON.parse(stdout) as ProbeAnswer; // our own program wrote it
  } catch (error) {
    const reason = error instanceof Error ? (error.message.split("\n").at(-1) ?? "") : String(error);
    const fix = "Install Python 3, or name an interpreter with NEREID_PYTHON or the parameter EXECUTION_ENV_PATH";
    model.add("error", `the Python interpreter '${interpreter}' cannot be run: ${reason}`, fix);
    return undefined;
  }
}

function report(model: ExaminedModel, interpreter: string, file: string, answer: ProbeAnswer): void {
  const install = (what: string): string =>
    `Run ${interpreter} -m pip install ${what}, or name another interpreter with NEREID_PYTHON`;
  if (!answer.numpy) {
    model.add("error", `the Python interpreter '${interpreter}' (${answer.version}) has no numpy`, install("numpy"), {
      file,
    });
  }
  if (answer.error !== undefined) {
    model.add("error", answer.error.message, "Correct the file", { file, line: answer.error.line });
    return;
  }
  if (!answer.hasClass) {
    model.add("error", "there is no class TritonPythonModel in the file", "Give the model's class that name", { file });
  }
  for (const { line, module, certain } of answer.missing) {
    model.add(
      certain ? "error" : "warning",
      `module '${module}' is not installed for '${interpreter}'`,
      install(packageOf(module)),
      {
        file,
        line,
      },
    );
  }
}

/** Packages whose name differs from their module. */
const PACKAGES: ReadonlyMap<string, string> = new Map([
  ["PIL", "pillow"],
  ["cv2", "opencv-python-headless"],
  ["sklearn", "scikit-learn"],
  ["yaml", "pyyaml"],
  ["google.protobuf", "protobuf"],
]);

function packageOf(module: string): string {
  return PACKAGES.get(module) ?? module.split(".")[0] ?? module;
}
