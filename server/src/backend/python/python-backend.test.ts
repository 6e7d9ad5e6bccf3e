import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { backend, load, options, venv } from "../../../../tests/fakes/python-fixture.ts";
import { EMPTY_CONFIG, sourceOf, until } from "../../../../tests/fakes/python-models.ts";
import { createPythonBackend } from "./python-backend.ts";

test("`Logger` and the output of the process reach the log with names", options, async (t) => {
  const { source } = await load(
    t,
    `
def initialize(self, args):
    pb_utils.Logger.log_warn("careful")
    print("on stdout")
    print("on stderr", file=sys.stderr)
`,
  );
  await until(() => source.lines.length >= 3);
  const lines = source.lines.map(({ level, location, message }) => `${level} ${location} ${message}`).sort();
  assert.match(lines[1] ?? "", /^warn model\.py:\d+ careful$/);
  assert.deepEqual([lines[0], lines[2]], ["info python m_0_0: on stdout", "warn python m_0_0: on stderr"]);
});

test("`initialize()` gets the arguments of the instance", options, async (t) => {
  const { source } = await load(
    t,
    `
def initialize(self, args):
    config = json.loads(args.pop("model_config"))
    print(json.dumps([args, config["name"], pb_utils.get_model_dir()], sort_keys=True))
`,
  );
  await until(() => source.lines.length >= 1);
  assert.deepEqual(JSON.parse(source.lines[0]?.message.slice("m_0_0: ".length) ?? ""), [
    {
      model_instance_device_id: "0",
      model_instance_kind: "CPU",
      model_instance_name: "m_0_0",
      model_name: "m",
      model_repository: source.modelFolder,
      model_version: "1",
    },
    "m",
    source.versionFolder,
  ]);
});

const LOAD_FAILURES: readonly (readonly [string, string, RegExp])[] = [
  [
    "`initialize` raises",
    "class TritonPythonModel:\n  def initialize(self, args):\n    raise RuntimeError('planned')",
    /^RuntimeError: planned\n\nAt:\n {2}\S+\/1\/model\.py\(3\): initialize\n$/,
  ],
  ["the file has a syntax error", "def (", /^SyntaxError: /],
  ["the class is missing", "x = 1", /^AttributeError: .*TritonPythonModel/],
  [
    "the process ends itself",
    "import os\nos._exit(3)",
    /^Stub process 'm_0_0' is not healthy\. It exited with code 3$/,
  ],
];
for (const [what, code, expected] of LOAD_FAILURES) {
  test(`\`createInstance()\` rejects with the reason when ${what}`, options, async () => {
    const model = await backend.load(await sourceOf(code));
    await assert.rejects(model.createInstance({ name: "m_0_0", kind: "KIND_CPU", deviceId: 0 }), { message: expected });
  });
}

test("`createInstance()` says how to get numpy when the interpreter has none", options, async () => {
  const folder = await mkdtemp(join(tmpdir(), "nereid-bare-"));
  await promisify(execFile)(venv.python ?? "", ["-m", "venv", "--without-pip", folder]);
  const python = join(folder, "bin", "python");
  const source = await sourceOf("import numpy", { settings: new Map([["interpreter", python]]) });
  const model = await backend.load(source);
  await assert.rejects(model.createInstance({ name: "m", kind: "KIND_CPU", deviceId: 0 }), (error: Error) => {
    assert.ok(error.message.startsWith("ModuleNotFoundError: No module named 'numpy'"));
    assert.ok(error.message.includes(`has no numpy. Install it with \`${python} -m pip install numpy\``));
    return true;
  });
});

test("`createInstance()` says what to do when there is no interpreter", { timeout: 600_000 }, async () => {
  const source = await sourceOf("", { settings: new Map([["interpreter", "/no/such/python"]]) });
  const model = await createPythonBackend().load(source);
  await assert.rejects(model.createInstance({ name: "m", kind: "KIND_CPU", deviceId: 0 }), {
    message: /The Python interpreter '\/no\/such\/python' cannot be started .* or name one with --backend-config/,
  });
});

test("`describe()` gives what `auto_complete_config` adds", options, async () => {
  const source = await sourceOf(`
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "P", "data_type": "TYPE_FP32", "dims": [2]})
        config.add_output({"name": "R", "data_type": "TYPE_FP32", "dims": [2]})
        config.set_max_batch_size(3)
        config.set_dynamic_batching()
        config.set_model_transaction_policy({"decoupled": True})
        return config
`);
  const tensor = { dataType: "TYPE_FP32", dims: [-1, 2] };
  assert.deepEqual(await backend.describe?.(source), {
    inputs: [{ name: "P", ...tensor }],
    outputs: [{ name: "R", ...tensor }],
    canBatch: true,
    addsTensors: true,
    maxBatchSize: 3,
    dynamicBatching: true,
    decoupled: true,
  });
});

test("`describe()` gives nothing when the model has no `auto_complete_config`", options, async () => {
  assert.equal(await backend.describe?.(await sourceOf("class TritonPythonModel:\n  pass")), undefined);
});

const COMPLETION_FAILURES: readonly (readonly [string, string, RegExp])[] = [
  [
    "it returns nothing",
    "pass",
    /^auto_complete_config function in model 'm' must return a valid pb\.ModelConfig object\.$/,
  ],
  [
    "a tensor has no dims",
    'c.add_input({"name": "P", "data_type": "TYPE_FP32"})',
    /ValueError: input 'P' in auto-complete-config function for model 'm' is missing 'dims' property\./,
  ],
  [
    "it lowers the batch size",
    "c.set_max_batch_size(2)",
    /ValueError: configuration specified max_batch_size 4, but in auto-complete-config function for model 'm' specified max_batch_size 2/,
  ],
];
for (const [what, body, expected] of COMPLETION_FAILURES) {
  test(`\`describe()\` rejects when ${what}`, options, async () => {
    const code = `class TritonPythonModel:\n  def auto_complete_config(c):\n    ${body}`;
    const source = await sourceOf(code, { config: { ...EMPTY_CONFIG, max_batch_size: 4 } });
    await assert.rejects(async () => backend.describe?.(source), { message: expected });
  });
}

test("`load()` says that a model's own stub is not used, and what is instead", async () => {
  const source = await sourceOf("");
  await writeFile(join(source.modelFolder, "triton_python_backend_stub"), "");
  await backend.load(source);
  assert.deepEqual(
    source.lines.map(({ level, message }) => [
      level,
      /brings a triton_python_backend_stub.*EXECUTION_ENV_PATH/.test(message),
    ]),
    [["warn", true]],
  );
});
