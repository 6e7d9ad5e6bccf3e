import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { createPythonBackend } from "../../server/src/backend/python/python-backend.ts";
import { completeModelConfig, parseModelConfigText } from "../../server/src/config/model/model-config.ts";
import { BackendLog } from "../../server/src/repository/load/backend-log.ts";
import { createInstances, instanceSpecs } from "../../server/src/repository/load/instance-specs.ts";
import { options, venv } from "../fakes/python-fixture.ts";
import { sourceOf } from "../fakes/python-models.ts";

const CODE = `
class TritonPythonModel:
    def initialize(self, args):
        print(args["model_instance_name"], args["model_instance_kind"], args["model_instance_device_id"])
    def execute(self, requests):
        return []
`;
const IO = 'input { name: "IN" data_type: TYPE_FP32 dims: 1 } output { name: "OUT" data_type: TYPE_FP32 dims: 1 }';
const CASES: readonly (readonly [string, string, readonly string[]])[] = [
  ["KIND_GPU without gpus", "instance_group { kind: KIND_GPU }", ["m_0_0 GPU 0", "m_0_0 GPU 3"]],
  ["KIND_GPU with a count", "instance_group { kind: KIND_GPU count: 2 gpus: 3 }", ["m_0_0 GPU 3", "m_0_1 GPU 3"]],
  ["no instance group", "", ["m_0 GPU 0", "m_0 GPU 3"]],
  ["KIND_CPU", "instance_group { kind: KIND_CPU }", ["m_0_0 CPU 0"]],
  ["KIND_MODEL", "instance_group { kind: KIND_MODEL count: 2 }", ["m_0_0 MODEL 0", "m_0_1 MODEL 0"]],
];

for (const [what, group, expected] of CASES) {
  test(`a Python model gets the instances that ${what} asks for when there are GPUs 0 and 3`, options, async (t) => {
    const backend = createPythonBackend({
      environment: { ...process.env, NEREID_PYTHON: venv.python },
      findGpus: () => ({ ids: [0, 3], minComputeCapability: 0 }),
    });
    const written = parseModelConfigText(`name: "m" backend: "python" ${IO} ${group}`, "config.pbtxt");
    const config = completeModelConfig({
      written,
      modelName: "m",
      artifacts: [],
      autoComplete: false,
      description: undefined,
      settings: new Map(),
      gpus: backend.gpus ?? { ids: [], minComputeCapability: 0 },
    });
    const source = await sourceOf(CODE, { config });
    const specs = instanceSpecs(config).map(({ spec }) => spec);
    const instances = await createInstances(specs, await backend.load(source), new BackendLog(source.log, "python"));
    t.after(() => Promise.all(instances.map((instance) => instance.close())));
    // Each says it on its standard output, behind the name of its instance.
    const said = (): string[] =>
      source.lines.filter(({ location }) => location !== "python_be").map(({ message }) => message);
    while (said().length < expected.length) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(
      said()
        .map((message) => message.replace(/^\S+: /, ""))
        .sort(),
      expected,
    );
  });
}
