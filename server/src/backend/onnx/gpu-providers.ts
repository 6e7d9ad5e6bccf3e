/** From a model's configuration to the devices that its sessions on a GPU are to use. Pure. */
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { ProviderOptions } from "../../native/onnxruntime/onnxruntime.ts";

/** CUDA's arena, as sizes are asked for. */
const CUDA_DEFAULTS: readonly (readonly [string, string])[] = [["arena_extend_strategy", "kSameAsRequested"]];

/** ONNX Runtime's names of the TensorRT settings of a configuration. */
const TENSORRT_OPTIONS: ReadonlyMap<string, (value: string) => readonly [string, string]> = new Map([
  [
    "precision_mode",
    (value) => [value === "INT8" ? "trt_int8_enable" : "trt_fp16_enable", value === "FP32" ? "0" : "1"],
  ],
  ["max_workspace_size_bytes", (value) => ["trt_max_workspace_size", value]],
  ["int8_calibration_table_name", (value) => ["trt_int8_calibration_table_name", value]],
  ["int8_use_native_calibration_table", (value) => ["trt_int8_use_native_calibration_table", value]],
]);

/** Best first. @throws ServerError for an accelerator that is not known */
export function gpuProviders(config: ModelConfig, deviceId: number): readonly ProviderOptions[] {
  const accelerators = config.optimization?.execution_accelerators?.gpu_execution_accelerator ?? [];
  let cuda = new Map<string, string>([["device_id", String(deviceId)], ...CUDA_DEFAULTS]);
  const before: ProviderOptions[] = [];
  for (const { name, parameters } of accelerators) {
    if (name === "cuda") cuda = new Map([...cuda, ...Object.entries(parameters)]);
    else if (name === "tensorrt") before.push({ kind: "tensorrt", options: tensorrtOptions(parameters, deviceId) });
    else throw invalidArgument(`unknown Execution Accelerator '${name}' is requested`);
  }
  return [...before, { kind: "cuda", options: cuda }];
}

/** Names of ONNX Runtime's own are passed through. */
function tensorrtOptions(parameters: Readonly<Record<string, string>>, deviceId: number): ReadonlyMap<string, string> {
  const options = Object.entries(parameters).map(
    ([name, value]) => TENSORRT_OPTIONS.get(name)?.(value) ?? ([name, value] as const),
  );
  return new Map([["device_id", String(deviceId)], ...options]);
}
