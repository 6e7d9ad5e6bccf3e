import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fakeConfig, fakeInput } from "../../../../tests/fakes/model-config.ts";
import { engineFolderKind, readArguments } from "./engine-folder.ts";

const root = mkdtempSync(join(tmpdir(), "nereid-folders-"));
after(() => rmSync(root, { recursive: true }));

const API_INPUTS = ["text_input", "sampling_param_temperature"].map((name) => fakeInput(name, [1]));
const PROGRAM = { "model.py": "", "model.yaml": "model: x\n" };

function kindOf(
  config: Parameters<typeof fakeConfig>[0],
  files: Readonly<Record<string, string>>,
  { settings = {}, env = {} }: { settings?: Record<string, string>; env?: Record<string, string> } = {},
): string | undefined {
  const versionFolder = mkdtempSync(join(root, "version-"));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(versionFolder, "sub"), { recursive: true });
    writeFileSync(join(versionFolder, name), text);
  }
  const source = { config: fakeConfig(config), versionFolder, settings: new Map(Object.entries(settings)) };
  return engineFolderKind(source, env);
}

test("an llmapi folder has its inputs, a program and the file of arguments", () => {
  const config = { backend: "python", input: API_INPUTS };
  assert.equal(kindOf(config, PROGRAM), "llmapi");
  assert.equal(kindOf({ ...config, default_model_filename: "serve.py" }, { ...PROGRAM, "serve.py": "" }), "llmapi");
  assert.equal(kindOf({ ...config, default_model_filename: "serve.py" }, PROGRAM), undefined);
  assert.equal(kindOf(config, { "model.py": "" }), undefined);
  assert.equal(kindOf(config, { "model.yaml": "" }), undefined);
  assert.equal(kindOf({ ...config, backend: "typescript" }, PROGRAM), undefined);
  assert.equal(kindOf({ backend: "python", input: [fakeInput("text_input", [1])] }, PROGRAM), undefined);
  const renamed = { "model.py": "", "sub/llm.yml": "" };
  assert.equal(kindOf(config, renamed, { env: { LLM_CONFIG_PATH: "sub/llm.yml" } }), "llmapi");
});

test("a parameter or a setting leaves a folder to its own program", () => {
  const asks = (engine: string) => ({ parameters: { engine: { string_value: engine } } });
  const api = { backend: "python", input: API_INPUTS };
  assert.equal(kindOf({ backend: "vllm" }, {}), "vllm");
  for (const engine of ["python", "vllm"]) {
    assert.equal(kindOf({ backend: "vllm", ...asks(engine) }, {}), undefined);
    assert.equal(kindOf({ ...api, ...asks(engine) }, PROGRAM), undefined);
    assert.equal(kindOf({ backend: "vllm" }, {}, { settings: { engine } }), undefined);
  }
  // The model's own word counts more.
  assert.equal(kindOf({ backend: "vllm", ...asks("nereid") }, {}, { settings: { engine: "python" } }), "vllm");
});

test("readArguments() reads YAML and JSON, and names the file of a fault", async () => {
  const path = join(root, "args");
  writeFileSync(path, "base: &b { a: 1 }\nmore: *b\nlist: [x]\n# done\n");
  assert.deepEqual(await readArguments(path, "yaml"), { base: { a: 1 }, more: { a: 1 }, list: ["x"] });
  for (const text of ["a: [", "just a text", "- 1"]) {
    writeFileSync(path, text);
    await assert.rejects(readArguments(path, "yaml"), new RegExp(path));
  }
  writeFileSync(path, "a: 1");
  await assert.rejects(readArguments(path, "json"), /Failed to parse engine config/);
});
