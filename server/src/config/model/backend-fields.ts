/**
 * Derives name, backend, platform and artifact from the stated fields and the version folder. Source: Triton
 * documentation, "Model Repository". Does not know the available backends.
 */
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";

/** An entry of a version folder. */
export interface ModelArtifact {
  readonly name: string;
  readonly isFolder: boolean;
}

interface BackendRule {
  readonly backend: string;
  /** The first one is filled in; the others are accepted. Empty: the backend has no platform name. */
  readonly platforms: readonly string[];
  readonly filename: string;
  readonly artifactKind: "file" | "folder" | "either";
}

/** In order of precedence. */
const RULES: readonly BackendRule[] = [
  { backend: "tensorflow", platforms: ["tensorflow_savedmodel"], filename: "model.savedmodel", artifactKind: "folder" },
  { backend: "tensorflow", platforms: ["tensorflow_graphdef"], filename: "model.graphdef", artifactKind: "file" },
  { backend: "tensorrt", platforms: ["tensorrt_plan"], filename: "model.plan", artifactKind: "file" },
  { backend: "onnxruntime", platforms: ["onnxruntime_onnx"], filename: "model.onnx", artifactKind: "either" },
  { backend: "openvino", platforms: [], filename: "model.xml", artifactKind: "either" },
  { backend: "pytorch", platforms: ["pytorch_libtorch", "libtorch"], filename: "model.pt", artifactKind: "file" },
  { backend: "pytorch", platforms: ["torch_aoti"], filename: "model.pt2", artifactKind: "file" },
  { backend: "python", platforms: [], filename: "model.py", artifactKind: "either" },
  { backend: "typescript", platforms: [], filename: "model.ts", artifactKind: "file" },
];

/** Backends with a platform name of their own, which the configuration must then use. */
export const PLATFORMS_OF_BACKEND: ReadonlyMap<string, readonly string[]> = platformTable();

/** @throws ServerError when the backend cannot be derived */
export function fillBackendFields(
  config: ModelConfig,
  modelName: string,
  artifacts: readonly ModelArtifact[],
): ModelConfig {
  const named = config.name === "" ? { ...config, name: modelName } : config;
  const rule = RULES.find((candidate) => matches(candidate, named, artifacts)) ?? ruleOfBackend(named);
  if (rule !== undefined) {
    return {
      ...named,
      backend: named.backend || rule.backend,
      platform: named.platform || (rule.platforms[0] ?? ""),
      default_model_filename: named.default_model_filename || rule.filename,
    };
  }
  const statesNothing = named.backend === "" && named.platform === "" && named.default_model_filename === "";
  return statesNothing ? { ...named, ...backendOfName(modelName) } : named;
}

/**
 * A platform or a file name decides alone, so that one which does not fit the other is noticed later. Only TensorFlow's
 * file names need a platform of its own or none. Source: core, model_config_utils.cc, `AutoCompleteBackendFields`.
 */
function matches(rule: BackendRule, config: ModelConfig, artifacts: readonly ModelArtifact[]): boolean {
  const { backend, platform, default_model_filename: filename } = config;
  if (backend !== "" && backend !== rule.backend) return false;
  if (rule.platforms.includes(platform)) return true;
  const needsPlatform = backend !== "" || rule.backend === "tensorflow";
  if (platform !== "" && needsPlatform) return false;
  if (filename !== "") return filename === rule.filename;
  if (platform !== "") return false;
  return artifacts.some((artifact) => artifact.name === rule.filename && isOfKind(artifact, rule.artifactKind));
}

function isOfKind(artifact: ModelArtifact, kind: BackendRule["artifactKind"]): boolean {
  return kind === "either" || artifact.isFolder === (kind === "folder");
}

/** A stated backend needs no artifact as proof: its default names are filled in. */
function ruleOfBackend(config: ModelConfig): BackendRule | undefined {
  if (config.backend === "" || config.platform !== "") return undefined;
  return RULES.find((rule) => rule.backend === config.backend);
}

/** Fallback: a model named `x.<backend>` has the artifact `model.<backend>`. */
function backendOfName(modelName: string): Pick<ModelConfig, "backend" | "default_model_filename"> {
  const dot = modelName.indexOf(".");
  if (dot < 0) {
    throw invalidArgument(
      `Invalid model name: Could not determine backend for model '${modelName}' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.`,
    );
  }
  const backend = modelName.slice(dot + 1);
  return { backend, default_model_filename: `model.${backend}` };
}

function platformTable(): Map<string, readonly string[]> {
  const table = new Map<string, readonly string[]>();
  for (const { backend, platforms } of RULES) {
    if (platforms.length > 0) table.set(backend, [...(table.get(backend) ?? []), ...platforms]);
  }
  return table;
}
