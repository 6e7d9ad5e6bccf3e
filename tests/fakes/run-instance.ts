/** A backend without a server: loads a model from the text of its configuration and runs single requests on it. */
import assert from "node:assert/strict";
import type { Backend, Batch, ModelInstance, ModelSource } from "../../server/src/backend/backend.ts";
import { parseModelConfigText } from "../../server/src/config/model/model-config.ts";
import { bytesElements, packBytesElements } from "../../server/src/core/bytes-tensor.ts";
import type { InferRequest } from "../../server/src/core/infer-request.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";
import { fakeRequest } from "./requests.ts";

export interface LoadedInstance extends AsyncDisposable {
  readonly instance: ModelInstance;
  run(inputs: readonly Tensor[], changes?: Partial<InferRequest>): Promise<ReadonlyMap<string, Tensor>>;
}

export function fakeSource(config: string, modelFolder: string): ModelSource {
  const nothing = (): void => undefined;
  const parsed = parseModelConfigText(config, "config.pbtxt");
  return {
    name: parsed.name,
    version: 1,
    config: parsed,
    modelFolder,
    versionFolder: `${modelFolder}/1`,
    settings: new Map(),
    log: { info: nothing, warn: nothing, error: nothing, verbose: nothing, table: nothing },
    models: { infer: () => assert.fail("calls no other model"), signature: () => assert.fail("looks at none") },
    metrics: { register: () => ({ [Symbol.dispose]: nothing }) },
  };
}

export async function loadInstance(backend: Backend, config: string, modelFolder: string): Promise<LoadedInstance> {
  const source = fakeSource(config, modelFolder);
  const model = await backend.load(source);
  const instance = await model.createInstance({ name: `${source.name}_0`, kind: "KIND_CPU", deviceId: 0 });
  const isBatching = source.config.max_batch_size > 0;
  return {
    instance,
    run: (inputs, changes) => runRequest(instance, isBatching, fakeRequest(inputs, changes)),
    async [Symbol.asyncDispose]() {
      await instance.close();
      await model.close();
      await backend.close();
    },
  };
}

/** One request on an instance that batches. */
export function runOnce(instance: ModelInstance, inputs: readonly Tensor[]): Promise<ReadonlyMap<string, Tensor>> {
  return runRequest(instance, true, fakeRequest(inputs));
}

function runRequest(
  instance: ModelInstance,
  isBatching: boolean,
  request: InferRequest,
): Promise<ReadonlyMap<string, Tensor>> {
  const batchSize = isBatching ? (request.inputs[0]?.shape[0] ?? 1) : 1;
  return new Promise((resolve, reject) => {
    const batch: Batch = {
      requests: [
        {
          request,
          batchSize,
          outputNames: request.outputs,
          respond: ({ outputs }) => resolve(new Map(outputs.map((output) => [output.name, output]))),
          fail: reject,
          drained: () => Promise.resolve(),
        },
      ],
      batchSize,
      computeStarted: () => undefined,
      computeEnded: () => undefined,
    };
    Promise.resolve(instance.execute(batch)).catch(reject);
  });
}

export function bytesTensor(
  name: string,
  shape: readonly number[],
  elements: readonly (Uint8Array | string)[],
): Tensor {
  return { name, datatype: "BYTES", shape, data: packBytesElements(elements) };
}

export function floatTensor(name: string, shape: readonly number[], values: Iterable<number>): Tensor {
  return { name, datatype: "FP32", shape, data: new Uint8Array(Float32Array.from(values).buffer) };
}

export function floatsOf(tensor: Tensor | undefined): Float32Array {
  return new Float32Array(Uint8Array.from(tensor?.data ?? []).buffer);
}

export function textsOf(tensor: Tensor | undefined): string[] {
  return tensor === undefined ? [] : bytesElements(tensor).map((bytes) => Buffer.from(bytes).toString());
}
