/** Backends of Triton that this server lacks for good: each refuses its models and says how they are served instead. */
import { join } from "node:path";
import { ServerError } from "../../core/server-error.ts";
import type { Backend, ModelSource } from "../backend.ts";

/** A backend in Python of the same name, in `--backend-directory`, goes before it. Undefined: no such backend is known. */
export function refusedBackend(name: string): Backend | undefined {
  const advice = ADVICE.get(name);
  if (advice === undefined) return undefined;
  const refuse = async (source: ModelSource): Promise<never> => {
    const { backend } = source.config;
    const text = `unable to load model '${source.name}': the backend '${backend}' is not served here; ${advice(source)}`;
    throw new ServerError("unsupported", text);
  };
  return { name, describe: refuse, load: refuse, close: async () => undefined };
}

const ADVICE: ReadonlyMap<string, (source: ModelSource) => string> = new Map([
  ["tensorflow", adviceForTensorflow],
  ["dali", adviceForDali],
]);

function adviceForTensorflow(source: ModelSource): string {
  const { platform, default_model_filename: fileName } = source.config;
  const target = `--output ${join(source.versionFolder, "model.onnx")}`;
  if (platform === "tensorflow_graphdef") {
    const graph = join(source.versionFolder, fileName || "model.graphdef");
    const tensors = `--inputs ${tensorNames(source.config.input)} --outputs ${tensorNames(source.config.output)}`;
    return `convert it and set backend: "onnxruntime": python -m tf2onnx.convert --graphdef ${graph} ${tensors} ${target}`;
  }
  const folder = join(source.versionFolder, fileName || "model.savedmodel");
  const command = `python -m tf2onnx.convert --saved-model ${folder} ${target}`;
  return `convert it and set backend: "onnxruntime": ${command}; or let OpenVINO read it: backend: "openvino"`;
}

function adviceForDali(): string {
  return (
    "its pipelines are programs for NVIDIA's library; the backend 'image' decodes, resizes, crops and normalizes by the " +
    "preprocessor_config.json of a model (docs/vision.md)"
  );
}

/** As tf2onnx takes them: output 0 of each operation. */
function tensorNames(tensors: readonly { readonly name: string }[]): string {
  return tensors.map(({ name }) => `${name}:0`).join(",") || "<name>:0";
}
