/**
 * The parameters of a model of the backend `openvino`. Pure. Source: triton-inference-server/openvino_backend, README,
 * "Parameters", and openvino.cc, `ParseParameterHelper`.
 */
import { nearestName } from "../../config/suggest.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";

export interface OpenvinoSettings {
  readonly device: string;
  /** By OpenVINO's names. */
  readonly properties: ReadonlyMap<string, string>;
  readonly extension: string | undefined;
  /** The model's batch size stays as it is. */
  readonly keepsBatchSize: boolean;
  /** Batches with fewer rows than the model has are filled up with zeros. */
  readonly padsBatches: boolean;
  /** Inputs get the shapes of the configuration. */
  readonly reshapes: boolean;
  readonly library: string | undefined;
  /** Parameters that are given and unknown, one line. */
  readonly note: string | undefined;
}

type Parse = (value: string) => readonly [string, string] | undefined;

const NUMBER = /^\d+$/;

/** From a value in lower case to a property; undefined: not such a value. */
const PROPERTIES: Readonly<Record<string, { readonly expected: string; readonly parse: Parse }>> = {
  INFERENCE_NUM_THREADS: {
    expected: "a non-negative number",
    parse: (value) => (NUMBER.test(value) ? ["INFERENCE_NUM_THREADS", value] : undefined),
  },
  COMPILATION_NUM_THREADS: {
    expected: "a non-negative number",
    parse: (value) => (NUMBER.test(value) ? ["COMPILATION_NUM_THREADS", value] : undefined),
  },
  HINT_BF16: {
    expected: "YES",
    parse: (value) => (value === "yes" ? ["INFERENCE_PRECISION_HINT", "bf16"] : undefined),
  },
  NUM_STREAMS: {
    expected: "either AUTO/NUMA/<int_value>",
    parse: (value) =>
      NUMBER.test(value) || ["auto", "numa"].includes(value) ? ["NUM_STREAMS", value.toUpperCase()] : undefined,
  },
  PERFORMANCE_HINT: {
    expected: "LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT",
    parse: (value) =>
      ["latency", "throughput", "cumulative_throughput"].includes(value)
        ? ["PERFORMANCE_HINT", value.toUpperCase()]
        : undefined,
  },
};
const OTHERS: readonly string[] = [
  "CPU_EXTENSION_PATH",
  "SKIP_OV_DYNAMIC_BATCHSIZE",
  "ENABLE_BATCH_PADDING",
  "RESHAPE_IO_LAYERS",
  "TARGET_DEVICE",
  "library",
];

/** @throws ServerError in Triton's words for values that are none, and for parameters that look like misspelt ones */
export function parseOpenvinoSettings(config: ModelConfig): OpenvinoSettings {
  const text = (key: string): string | undefined => {
    const value = Object.hasOwn(config.parameters, key) ? config.parameters[key]?.string_value : undefined;
    return value === "" ? undefined : value;
  };
  const isOn = (key: string): boolean => text(key)?.toLowerCase() === "yes";
  return {
    device: (text("TARGET_DEVICE") ?? "CPU").toUpperCase(),
    properties: readProperties(config, text),
    extension: text("CPU_EXTENSION_PATH"),
    keepsBatchSize: isOn("SKIP_OV_DYNAMIC_BATCHSIZE"),
    padsBatches: isOn("ENABLE_BATCH_PADDING"),
    reshapes: isOn("RESHAPE_IO_LAYERS"),
    library: text("library"),
    note: noteUnknown(config),
  };
}

/** Instances that run at once need as many streams, unless the configuration says otherwise. */
function readProperties(config: ModelConfig, text: (key: string) => string | undefined): Map<string, string> {
  const properties = new Map<string, string>();
  for (const [key, { expected, parse }] of Object.entries(PROPERTIES)) {
    const value = text(key);
    if (value === undefined) continue;
    const property = parse(value.toLowerCase());
    if (property === undefined) {
      throw invalidArgument(`expected the parameter '${key}' to be ${expected}, got ${value.toLowerCase()}`);
    }
    properties.set(...property);
  }
  const numInstances = config.instance_group.reduce((sum, { count }) => sum + count, 0);
  if (numInstances > 1 && !properties.has("NUM_STREAMS") && !properties.has("PERFORMANCE_HINT")) {
    properties.set("NUM_STREAMS", String(numInstances));
  }
  return properties;
}

function noteUnknown({ name, parameters }: ModelConfig): string | undefined {
  const known = [...Object.keys(PROPERTIES), ...OTHERS];
  const unknown = Object.keys(parameters).filter((key) => !known.includes(key));
  for (const key of unknown) {
    const meant = nearestName(key, known);
    if (meant !== undefined)
      throw invalidArgument(`model '${name}': unknown parameter '${key}', did you mean '${meant}'?`);
  }
  if (unknown.length === 0) return undefined;
  return `model '${name}': parameters without effect on this engine: ${unknown.sort().join(", ")}`;
}
