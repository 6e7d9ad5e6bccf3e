import assert from "node:assert/strict";
import { test } from "node:test";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { gpuProviders } from "./gpu-providers.ts";

function providersOf(optimization: string, deviceId = 1): unknown {
  const config = parseModelConfigText(`name: "m" ${optimization}`, "config.pbtxt");
  return gpuProviders(config, deviceId).map(({ kind, options }) => [kind, Object.fromEntries(options)]);
}

const ARENA = { arena_extend_strategy: "kSameAsRequested" };

test("gpuProviders() runs on CUDA, told which device", () => {
  assert.deepEqual(providersOf(""), [["cuda", { device_id: "1", ...ARENA }]]);
});

test("gpuProviders() puts TensorRT before CUDA, in ONNX Runtime's words", () => {
  const accelerator = `{ name: "tensorrt" parameters { key: "precision_mode" value: "FP16" }
    parameters { key: "max_workspace_size_bytes" value: "1073741824" } parameters { key: "trt_engine_cache_enable" value: "1" } }`;
  assert.deepEqual(
    providersOf(`optimization { execution_accelerators { gpu_execution_accelerator: [ ${accelerator} ] } }`, 0),
    [
      [
        "tensorrt",
        {
          device_id: "0",
          trt_fp16_enable: "1",
          trt_max_workspace_size: "1073741824",
          trt_engine_cache_enable: "1",
        },
      ],
      ["cuda", { device_id: "0", ...ARENA }],
    ],
  );
});

test("gpuProviders() passes CUDA's own options on, and knows no other accelerator", () => {
  const of = (accelerator: string): unknown =>
    providersOf(`optimization { execution_accelerators { gpu_execution_accelerator: [ ${accelerator} ] } }`);
  const cuda = `{ name: "cuda" parameters { key: "cudnn_conv_algo_search" value: "DEFAULT" } }`;
  assert.deepEqual(of(cuda), [["cuda", { device_id: "1", ...ARENA, cudnn_conv_algo_search: "DEFAULT" }]]);
  assert.throws(() => of(`{ name: "openvino" }`), /unknown Execution Accelerator 'openvino' is requested/);
});
