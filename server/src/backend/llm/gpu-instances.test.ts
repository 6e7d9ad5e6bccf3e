import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import type { GpuSpec } from "../../engine/engine-spec.ts";
import type { BackendModel, InstanceSpec, ModelSource } from "../backend.ts";
import { loadLlm } from "./llm-backend.ts";

const root = mkdtempSync(join(tmpdir(), "nereid-gpu-instances-"));
after(() => rmSync(root, { recursive: true }));

/** An engine host that refuses to load; its reason is the GPU specification that it received. */
const host = join(root, "host.ts");
const at = (path: string): string => JSON.stringify(fileURLToPath(new URL(path, import.meta.url)));
writeFileSync(
  host,
  `import { Socket } from "node:net";
import { FrameSplitter, FrameWriter } from ${at("../../engine/host/frame.ts")};
import { LOAD, LOAD_FAILED } from ${at("../../engine/host/messages.ts")};
const socket = new Socket({ fd: 3 });
const splitter = new FrameSplitter((frame) => {
  if (frame.kind !== LOAD) return process.exit(0);
  const writer = new FrameWriter();
  writer.begin(LOAD_FAILED);
  writer.text(JSON.stringify({ code: "internal", message: JSON.stringify(JSON.parse(frame.text()).gpu ?? null) }));
  socket.write(writer.end());
});
socket.on("data", (bytes) => splitter.push(bytes));
socket.on("close", () => process.exit(0));
`,
);

interface Model {
  readonly group: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly settings?: Readonly<Record<string, string>>;
  /** Tensor-parallel size of the checkpoint. */
  readonly mapping?: object;
  readonly gpus?: readonly number[];
  readonly prefersGpus?: boolean;
}

async function load({
  group,
  parameters = {},
  settings = {},
  mapping,
  gpus = [0, 1, 2, 3],
  prefersGpus = false,
}: Model): Promise<BackendModel> {
  const folder = mkdtempSync(join(root, "model-"));
  mkdirSync(join(folder, "1"));
  writeFileSync(join(folder, "1", "config.json"), JSON.stringify({ mapping }));
  const listed = Object.entries(parameters).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  const text = `name: "m" instance_group [ { name: "m" ${group} } ] ${listed.join(" ")}`;
  const ignore = (): undefined => undefined;
  const source: ModelSource = {
    name: "m",
    version: 1,
    config: parseModelConfigText(text, "config.pbtxt"),
    modelFolder: folder,
    versionFolder: join(folder, "1"),
    settings: new Map(Object.entries(settings)),
    log: { info: ignore, warn: ignore, error: ignore, verbose: ignore, table: ignore },
    models: { infer: () => assert.fail("calls no model"), signature: () => assert.fail("asks for none") },
    metrics: { register: () => ({ [Symbol.dispose]: ignore }) },
  };
  const usable = { ids: gpus, minComputeCapability: 8 };
  return loadLlm(source, { host: { entry: host }, findGpus: () => usable, prefersGpus });
}

async function gpuOf(model: BackendModel, changes: Partial<InstanceSpec>): Promise<GpuSpec | null> {
  const spec: InstanceSpec = { name: "m_0", kind: "KIND_GPU", deviceId: 0, ...changes };
  const told = await model.createInstance(spec).then(
    () => assert.fail("the host refuses"),
    (error: Error) => error.message,
  );
  return JSON.parse(told) as GpuSpec | null;
}

const GPUS = "kind: KIND_GPU gpus: [ 0, 1, 2, 3 ]";

test("a checkpoint split for several GPUs runs on as many", async () => {
  const model = await load({ group: GPUS, mapping: { tp_size: 2, pp_size: 1 } });
  assert.equal(model.gpusPerInstance, 2);
  assert.deepEqual(await gpuOf(model, { deviceId: 2, deviceIds: [2, 3] }), {
    ordinal: 2,
    ranks: { numTensorRanks: 2, numStages: 1, ordinals: [2, 3] },
  });
});

test("a checkpoint split for more GPUs than a group has is put together", async () => {
  const model = await load({ group: "kind: KIND_GPU gpus: [ 1 ]", mapping: { tp_size: 2 } });
  assert.equal(model.gpusPerInstance, 1);
  assert.deepEqual(await gpuOf(model, { deviceId: 1 }), { ordinal: 1 });
});

test("parameters say how many GPUs run an instance, whatever the checkpoint was split for", async () => {
  const parameters = { tensor_parallel: "2", pipeline_parallel: "2" };
  const model = await load({ group: GPUS, parameters, mapping: { tp_size: 1 } });
  assert.equal(model.gpusPerInstance, 4);
  const gpu = await gpuOf(model, { deviceIds: [0, 1, 2, 3] });
  assert.deepEqual(gpu?.ranks, { numTensorRanks: 2, numStages: 2, ordinals: [0, 1, 2, 3] });
});

test("gpu_device_ids names the GPUs of one instance after the other, also beside KIND_CPU", async () => {
  const model = await load({ group: "kind: KIND_CPU", parameters: { gpu_device_ids: "2,3;0,1" } });
  assert.equal(model.gpusPerInstance, 1);
  for (const ordinals of [
    [2, 3],
    [0, 1],
  ]) {
    const gpu = await gpuOf(model, { kind: "KIND_CPU" });
    assert.deepEqual(gpu, { ordinal: ordinals[0], ranks: { numTensorRanks: 2, numStages: 1, ordinals } });
  }
});

test("the launcher's world size puts a model on the first GPUs", async () => {
  const model = await load({ group: "kind: KIND_CPU", settings: { "world-size": "2" } });
  const gpu = await gpuOf(model, { kind: "KIND_CPU" });
  assert.deepEqual(gpu, { ordinal: 0, ranks: { numTensorRanks: 2, numStages: 1, ordinals: [0, 1] } });
});

test("without GPUs all that names them leaves a model on the CPU", async () => {
  const parameters = { gpu_device_ids: "0,1", tensor_parallel: "2" };
  const model = await load({ group: "kind: KIND_CPU", parameters, settings: { "world-size": "2" }, gpus: [] });
  assert.equal(await gpuOf(model, { kind: "KIND_CPU" }), null);
});

test("GPUs that do not come out even are refused by their number", async () => {
  const model = await load({ group: GPUS, parameters: { tensor_parallel: "3", gpu_device_ids: "0,1" } });
  await assert.rejects(
    model.createInstance({ name: "m_0", kind: "KIND_GPU", deviceId: 0 }),
    /instance 'm_0' of model 'm': 3 GPUs run an instance together, got 2 \(0, 1\)/,
  );
});

test("models of other engines run on GPUs, whatever the kind of their groups", async () => {
  const twoRanks = { tensor_parallel: "2" };
  for (const kind of ["KIND_CPU", "KIND_MODEL"] as const) {
    const model = await load({ group: `kind: ${kind}`, parameters: twoRanks, prefersGpus: true });
    const spec = await gpuOf(model, { kind });
    assert.deepEqual([spec?.ordinal, spec?.ranks?.ordinals], [0, [0, 1]]);
  }
  const listed = { ...twoRanks, gpu_device_ids: "0,1;2,3" };
  const model = await load({ group: "kind: KIND_CPU count: 2", parameters: listed, prefersGpus: true });
  const found = [await gpuOf(model, { kind: "KIND_CPU" }), await gpuOf(model, { kind: "KIND_CPU" })];
  assert.deepEqual(
    found.map((spec) => spec?.ranks?.ordinals),
    [
      [0, 1],
      [2, 3],
    ],
  );
  const without = await load({ group: "kind: KIND_CPU", gpus: [], prefersGpus: true });
  assert.equal(await gpuOf(without, { kind: "KIND_CPU" }), null);
});
