// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of templates are what is tested
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reporter } from "@nereid/server/files/progress";
import { initRepository } from "../create/init-repo.ts";
import { type Diagnosis, diagnose } from "./doctor.ts";
import type { Finding } from "./finding.ts";

const EXAMPLES = fileURLToPath(new URL("../../../../examples", import.meta.url));
const MODEL = join(EXAMPLES, "nereid-tiny", "language_model");
const silent = { write: () => true };
const reporter = new Reporter({ mode: "quiet", command: "doctor", stderr: silent, stdout: silent });
const { signal } = new AbortController();

let root = "";
let whole = "";
let repository = "";
before(async () => {
  root = mkdtempSync(join(tmpdir(), "nereid-doctor-"));
  whole = join(root, "whole");
  await initRepository({
    modelDir: MODEL,
    tokenizerDir: undefined,
    repository: whole,
    maxBatchSize: 8,
    isDecoupled: true,
    others: new Map(),
    copiesModel: false,
    replaces: false,
    reporter,
    signal,
  });
});
after(() => rmSync(root, { recursive: true, force: true }));
beforeEach(() => {
  repository = mkdtempSync(join(root, "repo-"));
  cpSync(whole, repository, { recursive: true });
});
afterEach(() => rmSync(repository, { recursive: true, force: true }));

const run = (...paths: string[]): Promise<Diagnosis> =>
  diagnose(paths.length > 0 ? paths : [repository], reporter, signal);

function edit(model: string, from: string | RegExp, to: string): number {
  const path = join(repository, model, "config.pbtxt");
  const text = readFileSync(path, "utf8");
  const changed = text.replace(from, to);
  assert.notEqual(changed, text, `${model} has no ${from}`);
  writeFileSync(path, changed);
  return changed.slice(0, changed.indexOf(to)).split("\n").length;
}

function add(model: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(join(repository, model, "1"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(repository, model, name), text);
}

const serious = ({ findings }: Diagnosis): readonly Finding[] => findings.filter(({ severity }) => severity !== "note");

const PYTHON_CONFIG = `backend: "python"
input [ { name: "a" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "b" data_type: TYPE_FP32 dims: [ 1 ] } ]
`;
const ENGINE = /string_value: "[^"]*language_model"/;

interface Case {
  readonly title: string;
  readonly arrange: () => number | undefined;
  /** The file of the error, inside the repository. */
  readonly file: string;
  readonly problem: RegExp;
  readonly fix: RegExp;
}

const CASES: readonly Case[] = [
  {
    title: "a misspelt field",
    arrange: () => edit("preprocessing", "max_batch_size:", "max_batchsize:"),
    file: "preprocessing/config.pbtxt",
    problem: /has no field 'max_batchsize'; did you mean 'max_batch_size'/,
    fix: /Correct the configuration/,
  },
  {
    title: "a folder of another name than the model",
    arrange: () => edit("preprocessing", 'name: "preprocessing"', 'name: "preprocess"'),
    file: "preprocessing/config.pbtxt",
    problem: /unexpected directory name 'preprocessing' for model 'preprocess'/,
    fix: /Rename the folder to 'preprocess'/,
  },
  {
    title: "an engine folder that does not exist",
    arrange: () => edit("tensorrt_llm", ENGINE, 'string_value: "/engines/none"'),
    file: "tensorrt_llm/config.pbtxt",
    problem: /gpt_model_path points to \/engines\/none, which does not exist/,
    fix: /Set gpt_model_path to a folder with a model: nereid fill-template -i/,
  },
  {
    title: "an engine that nobody named",
    arrange: () => edit("tensorrt_llm", ENGINE, 'string_value: "${engine_dir}"'),
    file: "tensorrt_llm/config.pbtxt",
    problem: /gpt_model_path is not set/,
    fix: /engine_dir:<folder>/,
  },
  {
    title: "an empty engine folder",
    arrange: () => {
      mkdirSync(join(repository, "tensorrt_llm", "engine"));
      return edit("tensorrt_llm", ENGINE, 'string_value: "engine"');
    },
    file: "tensorrt_llm/config.pbtxt",
    problem: /where there is nothing: the folder is empty/,
    fix: /Set gpt_model_path/,
  },
  {
    title: "a tokenizer folder without a tokenizer",
    arrange: () => edit("postprocessing", ENGINE, 'string_value: "/usr"'),
    file: "postprocessing/config.pbtxt",
    problem: /tokenizer_dir leads to \/usr, which holds no tokenizer\.json/,
    fix: /AutoTokenizer/,
  },
  {
    title: "a version folder that is missing",
    arrange: () => {
      rmSync(join(repository, "tensorrt_llm", "1"), { recursive: true });
      return undefined;
    },
    file: "tensorrt_llm",
    problem: /there is no version folder to serve/,
    fix: /mkdir .*tensorrt_llm\/1/,
  },
  {
    title: "a configuration in the version folder",
    arrange: () => {
      add("misplaced", { "1/config.pbtxt": 'backend: "identity"' });
      return undefined;
    },
    file: "misplaced/1/config.pbtxt",
    problem: /config\.pbtxt lies in the version folder/,
    fix: /Move it to .*misplaced/,
  },
  {
    title: "a backend that this server does not have",
    arrange: () => {
      add("net", { "config.pbtxt": '# exported\nplatform: "pytorch_libtorch"\n', "1/model.pt": "x" });
      return 2;
    },
    file: "net/config.pbtxt",
    problem: /unable to find backend library for backend 'pytorch'/,
    fix: /Export the model to ONNX/,
  },
  {
    title: "a tensor of an ensemble with another name than the model's",
    arrange: () => edit("ensemble", 'key: "QUERY"', 'key: "QUERRY"'),
    file: "ensemble/config.pbtxt",
    problem: /is mapping to non-existing input QUERRY in model preprocessing/,
    fix: /as config\.pbtxt of 'preprocessing' declares it/,
  },
  {
    title: "an ensemble that calls a version which is not there",
    arrange: () => {
      edit("ensemble", "model_version: -1", "model_version: 7");
      return undefined;
    },
    file: "ensemble/config.pbtxt",
    problem: /depends on 'preprocessing' whose required version 7 is not loaded/,
    fix: /Write model_version: -1/,
  },
  {
    title: "an ensemble that calls a model which is not there",
    arrange: () => edit("ensemble", 'model_name: "preprocessing"', 'model_name: "preprocesing"'),
    file: "ensemble/config.pbtxt",
    problem: /calls model 'preprocesing', which is not in the repository/,
    fix: /Write 'preprocessing' if that is meant/,
  },
  {
    title: "an ensemble that asks for larger batches than its models take",
    arrange: () => {
      edit("ensemble", "max_batch_size: 8", "max_batch_size: 16");
      return undefined;
    },
    file: "ensemble/config.pbtxt",
    problem: /allows maximum batch size 16, but it contains model preprocessing which only allows/,
    fix: /Lower max_batch_size of the ensemble, or raise that of 'preprocessing'/,
  },
  {
    title: "a model that asks for a GPU where there is none",
    arrange: () => {
      add("py", { "config.pbtxt": `${PYTHON_CONFIG}instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] } ]` });
      return 4;
    },
    file: "py/config.pbtxt",
    problem: /KIND_GPU but server does not support GPUs/,
    fix: /Write kind: KIND_CPU/,
  },
  {
    title: "a Python model without its file",
    arrange: () => {
      add("py", { "config.pbtxt": PYTHON_CONFIG });
      return undefined;
    },
    file: "py/1/model.py",
    problem: /the model's Python file is not there/,
    fix: /class TritonPythonModel/,
  },
  {
    title: "a Python model that does not parse",
    arrange: () => {
      add("py", {
        "config.pbtxt": PYTHON_CONFIG,
        "1/model.py": "class TritonPythonModel:\n  def execute(self\n    pass\n",
      });
      return 2;
    },
    file: "py/1/model.py",
    problem: /no valid Python: /,
    fix: /Correct the file/,
  },
  {
    title: "a Python model that imports what is not installed",
    arrange: () => {
      add("py", {
        "config.pbtxt": PYTHON_CONFIG,
        "1/model.py": "import json\nimport surely_not_installed.x\nclass TritonPythonModel:\n  pass\n",
      });
      return 2;
    },
    file: "py/1/model.py",
    problem: /module 'surely_not_installed' is not installed for/,
    fix: /pip install surely_not_installed/,
  },
  {
    title: "a Python model without the class",
    arrange: () => {
      add("py", { "config.pbtxt": PYTHON_CONFIG, "1/model.py": "class Model:\n  pass\n" });
      return undefined;
    },
    file: "py/1/model.py",
    problem: /no class TritonPythonModel/,
    fix: /that name/,
  },
  {
    title: "an ONNX model that is a pointer of git-lfs",
    arrange: () => {
      const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
      add("net", { "config.pbtxt": 'backend: "onnxruntime"', "1/model.onnx": pointer });
      return undefined;
    },
    file: "net/1/model.onnx",
    problem: /a pointer of git-lfs/,
    fix: /git lfs pull/,
  },
  {
    title: "an ONNX model that is none",
    arrange: () => {
      add("net", { "config.pbtxt": 'backend: "onnxruntime"', "1/model.onnx": "x".repeat(3000) });
      return undefined;
    },
    file: "net/1/model.onnx",
    problem: /onnx runtime error .*(Protobuf parsing failed|does not have a graph)/,
    fix: /Export or copy the model again/,
  },
  {
    title: "ensembles that call each other",
    arrange: () => {
      const ensemble = (callee: string): string =>
        `platform: "ensemble" max_batch_size: 0
         input [ { name: "a" data_type: TYPE_FP32 dims: [ 1 ] } ] output [ { name: "b" data_type: TYPE_FP32 dims: [ 1 ] } ]
         ensemble_scheduling { step [ { model_name: "${callee}" model_version: -1
           input_map { key: "a" value: "a" } output_map { key: "b" value: "b" } } ] }`;
      add("one", { "config.pbtxt": ensemble("two") });
      add("two", { "config.pbtxt": ensemble("one") });
      return 3;
    },
    file: "one/config.pbtxt",
    problem: /circular dependency between ensembles: one -> \.\.\. -> two -> one \(one -> two -> one\)/,
    fix: /out of the circle/,
  },
];

for (const { title, arrange, file, problem, fix } of CASES) {
  test(`diagnose() explains ${title}`, async () => {
    const line = arrange();
    const { findings } = await run();
    const found = findings.find((each) => each.severity === "error" && problem.test(each.problem));
    assert.ok(found !== undefined, JSON.stringify(findings, undefined, 1));
    assert.equal(found.file, join(repository, file));
    assert.match(found.fix, fix);
    assert.equal(line === undefined || line === found.line, true, `line ${found.line}, expected ${line}`);
  });
}

test("diagnose() finds nothing in repositories that load", async () => {
  assert.deepEqual(serious(await run()), []);
  const { findings, models } = await run(join(EXAMPLES, "model_repository"));
  assert.deepEqual(
    findings.filter(({ severity }) => severity === "error"),
    [],
  );
  assert.equal(
    models.every(({ isLoadable }) => isLoadable),
    true,
  );
});

test("diagnose() tells a model that depends on a broken one from the broken one", async () => {
  edit("tensorrt_llm", "max_batch_size:", "max_batch_sice:");
  const { findings, models } = await run();
  assert.deepEqual(
    models.filter(({ isLoadable }) => !isLoadable).map(({ name }) => name),
    ["ensemble", "tensorrt_llm"],
  );
  assert.match(findings.map(({ problem }) => problem).join("\n"), /it calls model 'tensorrt_llm', which will not load/);
});

test("diagnose() counts unfilled placeholders once a file, as a warning", async () => {
  edit("preprocessing", "count: 1", "count: ${preprocessing_instance_count}");
  assert.deepEqual(
    serious(await run()).map(({ severity, problem }) => [severity, problem]),
    [["warning", "1 placeholder is unfilled, so its default holds: preprocessing_instance_count (line 175: 1)"]],
  );
});

test("diagnose() explains folders that are no repositories", async () => {
  const one = await run(join(repository, "ensemble"));
  assert.match(one.findings[0]?.problem ?? "", /it is the folder of a model, not of a repository/);
  mkdirSync(join(repository, "empty"));
  assert.match((await run(join(repository, "empty"))).findings[0]?.problem ?? "", /there are no models in it/);
  const above = mkdtempSync(join(root, "above-"));
  symlinkSync(repository, join(above, "models"));
  cpSync(repository, join(above, "real"), { recursive: true });
  const found = (await run(above)).findings.find(({ problem }) => problem.includes("is a repository of its own"));
  assert.equal(found?.fix, `Name ${join(above, "real")} as the repository`);
  await assert.rejects(run(join(root, "none")), /does not exist/);
});

test("diagnose() knows folders of the Hugging Face hub, as a model and as a repository", async () => {
  add("hub", { "config.json": "{}", "tokenizer.json": "{}" });
  const folder = join(repository, "hub");
  for (const { findings } of [await run(), await run(folder)]) {
    const found = findings.find(({ problem }) => /folder of the Hugging Face hub/.test(problem));
    assert.equal(found?.fix, `Run nereid init-repo --model ${folder} --repo <new folder>, and serve that`);
  }
});

test("diagnose() finds a weight that is missing", async () => {
  const model = mkdtempSync(join(root, "model-"));
  cpSync(MODEL, model, { recursive: true });
  const config: Record<string, unknown> = JSON.parse(readFileSync(join(model, "config.json"), "utf8"));
  writeFileSync(
    join(model, "config.json"),
    JSON.stringify({ ...config, num_hidden_layers: 99, layer_types: undefined }),
  );
  edit("tensorrt_llm", ENGINE, `string_value: "${model}"`);
  const { findings } = await run();
  const found = findings.find(({ file, severity }) => file.startsWith(model) && severity === "error");
  assert.match(found?.problem ?? "", /the weights lack tensor/);
});

test("diagnose() names a model that two repositories have", async () => {
  const { findings } = await run(repository, whole);
  assert.equal(findings.filter(({ problem }) => /^model '.*' is in .* too$/.test(problem)).length, 5);
});

test("diagnose() notes which models chat, and why others do not", async () => {
  add("answers", {
    "config.pbtxt":
      'backend: "typescript"\ninput [ { name: "QUESTION" data_type: TYPE_STRING dims: [ 1 ] }, { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]\noutput [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]\n',
    "1/model.ts": "export const execute = () => ({});\n",
  });
  const { findings } = await run();
  const notes = findings.filter(({ problem }) => problem.includes("chat model"));
  const noteOf = (name: string): string => notes.find(({ model }) => model === name)?.problem ?? "";
  assert.match(noteOf("tensorrt_llm"), /^it is a chat model: token ids$/);
  assert.match(noteOf("ensemble"), /^it is a chat model: text in 'text_input', answer in 'text_output'$/);
  assert.match(noteOf("answers"), /^it is no chat model: no input of TYPE_STRING/);
  assert.ok(notes.every(({ severity }) => severity === "note"));
});
