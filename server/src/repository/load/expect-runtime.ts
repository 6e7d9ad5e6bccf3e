/**
 * The field `runtime` of a configuration, for backends of this server: the names of Triton's own libraries stand for them.
 * A model that runs on a shared library has another backend, which finds that library itself.
 * Source: triton-inference-server/core, backend_model.cc, `GetBackendLibraryProperties`.
 */
import { existsSync } from "node:fs";
import { isAbsolute, join, normalize } from "node:path";
import type { ModelSource } from "../../backend/backend.ts";
import { invalidArgument } from "../../core/server-error.ts";

const PYTHON_RUNTIME = "model.py";
/** Backends of this server that are written in Python. */
const OWN_PYTHON_BACKENDS: ReadonlySet<string> = new Set(["vllm", "pytorch"]);

/** @throws ServerError invalid_argument in Triton's words for a runtime that the backend lacks */
export function expectRuntime({ config, modelFolder, versionFolder, settings }: ModelSource): void {
  const { name, runtime, backend } = config;
  if (runtime === "" || runtime === `libtriton_${backend}.so`) return;
  const directory = join(settings.get("backend-directory") ?? "", backend);
  if (runtime === PYTHON_RUNTIME) {
    const path = join(directory, PYTHON_RUNTIME);
    if (OWN_PYTHON_BACKENDS.has(backend) || existsSync(path)) return;
    const text = `unable to find Python backend based backend library '${runtime}' for model '${name}', searched: '${path}'`;
    throw invalidArgument(text);
  }
  if (isAbsolute(runtime) || normalize(runtime).startsWith("..")) {
    const text =
      `backend library name '${runtime}' escapes backend directory '${directory}', for model '${name}', ` +
      "check model config runtime field";
    throw invalidArgument(text);
  }
  const searched = [versionFolder, modelFolder, directory].map((path) => `'${path}' `).join("");
  const text = `unable to find backend library '${runtime}' for model '${name}', searched: ${searched}`;
  throw invalidArgument(text);
}
