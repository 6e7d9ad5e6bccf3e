import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { EXAMPLES } from "../support/model-repository.ts";
import { assertSound } from "../support/probe-server.ts";
import { createRandom } from "../support/random.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const CONFIG = "config.pbtxt";
const ONNX = 'backend: "onnxruntime"';
const LLM_FILES = join(EXAMPLES, "../nereid-tiny/language_model");
const LABELLED =
  'backend: "identity" input [{ name: "X" data_type: TYPE_FP32 dims: [1] }] output [{ name: "Y" data_type: TYPE_FP32 dims: [1] label_filename: "../../secret.txt" }]';

interface BadModel {
  readonly name: string;
  /** Makes the folder; `path` does not exist yet. */
  readonly make: (path: string) => Promise<void>;
  /** The expected text in the log. */
  readonly says: RegExp;
}

/** A model folder from texts by relative path. */
function files(contents: Readonly<Record<string, string | Uint8Array>>): (path: string) => Promise<void> {
  return async (path) => {
    if (!Object.hasOwn(contents, "0/x")) await mkdir(join(path, "1"), { recursive: true });
    for (const [name, content] of Object.entries(contents)) {
      await mkdir(dirname(join(path, name)), { recursive: true });
      await writeFile(join(path, name), content);
    }
  };
}

function llm(change: (folder: string) => Promise<void>): (path: string) => Promise<void> {
  return async (path) => {
    await cp(LLM_FILES, join(path, "weights"), { recursive: true, dereference: true });
    await change(join(path, "weights"));
    await mkdir(join(path, "1"), { recursive: true });
    await cp(join(EXAMPLES, "tensorrt_llm", CONFIG), join(path, CONFIG));
    await writeFile(
      join(path, CONFIG),
      'backend: "tensorrtllm" max_batch_size: 4 parameters { key: "gpt_model_path" value: { string_value: "weights" } } instance_group [{ kind: KIND_CPU }]',
    );
  };
}

const random = createRandom(7);
const MODELS: readonly BadModel[] = [
  { name: "binary_config", make: files({ [CONFIG]: random.bytes(5000) }), says: /binary_config.*config\.pbtxt/ },
  { name: "config_with_nul", make: files({ [CONFIG]: `${ONNX}\0` }), says: /config_with_nul.*config\.pbtxt:1/ },
  {
    name: "huge_config",
    make: files({ [CONFIG]: "#".repeat(20_000_000) }),
    says: /huge_config.*20000000 bytes.*16777216/,
  },
  {
    name: "deep_config",
    make: files({ [CONFIG]: `${"parameters { ".repeat(50_000)}` }),
    says: /deep_config.*config\.pbtxt:1/,
  },
  {
    name: "config_is_folder",
    make: async (path) => void (await mkdir(join(path, CONFIG), { recursive: true })),
    says: /config_is_folder.*config\.pbtxt/,
  },
  { name: "no_versions", make: async (path) => void (await mkdir(path)), says: /no_versions/ },
  {
    name: "only_bad_versions",
    make: files({
      [CONFIG]: 'backend: "identity"',
      "0/x": "",
      "01/x": "",
      "99999999999999999999/x": "",
      "-1/x": "",
      "1e3/x": "",
    }),
    says: /ignoring version directory '99999999999999999999' of model 'only_bad_versions'/,
  },
  { name: "empty_onnx", make: files({ [CONFIG]: ONNX, "1/model.onnx": "" }), says: /empty_onnx.*model\.onnx/ },
  {
    name: "random_onnx",
    make: files({ [CONFIG]: ONNX, "1/model.onnx": random.bytes(4096) }),
    says: /random_onnx.*model\.onnx/,
  },
  {
    name: "onnx_is_folder",
    make: files({ [CONFIG]: ONNX, "1/model.onnx/x": "" }),
    says: /onnx_is_folder.*model\.onnx/,
  },
  {
    name: "cut_onnx",
    make: async (path) => {
      await cp(join(EXAMPLES, "simple"), path, { recursive: true });
      await writeFile(join(path, CONFIG), ONNX);
      await truncate(join(path, "1/model.onnx"), 200);
    },
    says: /cut_onnx.*model\.onnx/,
  },
  { name: "unknown_backend", make: files({ [CONFIG]: 'backend: "fortran"' }), says: /unknown_backend.*fortran/ },
  {
    name: "backend_with_path",
    make: files({ [CONFIG]: 'backend: "../../x"' }),
    says: /backend_with_path.*\.\.\/\.\.\/x/,
  },
  { name: "wrong_name", make: files({ [CONFIG]: 'name: "other" backend: "identity"' }), says: /wrong_name.*other/ },
  { name: "label_outside", make: files({ [CONFIG]: LABELLED }), says: /label_outside.*\.\.\/\.\.\/secret\.txt/ },
  {
    name: "onnx_outside",
    make: files({ [CONFIG]: `${ONNX} default_model_filename: "../../simple/1/model.onnx"` }),
    says: /onnx_outside.*\.\.\/\.\.\/simple/,
  },
  {
    name: "calls_itself",
    make: files({
      [CONFIG]:
        'platform: "ensemble" input [{ name: "X" data_type: TYPE_FP32 dims: [1] }] output [{ name: "Y" data_type: TYPE_FP32 dims: [1] }] ensemble_scheduling { step [{ model_name: "calls_itself" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } }] }',
    }),
    says: /calls_itself/,
  },
  {
    name: 'it\'s a "model" \u00fc\u{1f600}',
    make: files({ [CONFIG]: 'backend: "fortran"' }),
    says: /it's a .*fortran/,
  },
  { name: "new\nline", make: files({ [CONFIG]: 'backend: "fortran"' }), says: /new\\nline.*fortran/ },
  {
    name: "cut_weights",
    make: llm((folder) => truncate(join(folder, "model-00001-of-00002.safetensors"), 1_000_000)),
    says: /cut_weights.*model-00001-of-00002\.safetensors/,
  },
  {
    name: "empty_weights",
    make: llm((folder) => truncate(join(folder, "model-00001-of-00002.safetensors"), 0)),
    says: /empty_weights.*model-00001-of-00002\.safetensors/,
  },
  {
    name: "weights_header_of_2_to_63",
    make: llm((folder) =>
      writeFile(join(folder, "model-00001-of-00002.safetensors"), Buffer.from("ffffffffffffff7f7b7d", "hex")),
    ),
    says: /weights_header_of_2_to_63.*model-00001-of-00002\.safetensors/,
  },
  {
    name: "no_weights",
    make: llm((folder) => rm(join(folder, "model-00001-of-00002.safetensors"))),
    says: /no_weights.*safetensors/,
  },
  {
    name: "bad_llm_config",
    make: llm((folder) => writeFile(join(folder, "config.json"), "{")),
    says: /bad_llm_config.*config\.json/,
  },
  {
    name: "bad_tokenizer",
    make: async (path) => {
      await mkdir(join(path, "1"), { recursive: true });
      await writeFile(join(path, "tokenizer.json"), '{"model":{"type":"BPE","vocab":[]}}');
      const config =
        'backend: "tokenizer" max_batch_size: 4 input [{ name: "QUERY" data_type: TYPE_STRING dims: [1] }] parameters { key: "tokenizer_dir" value: { string_value: "." } }';
      await writeFile(join(path, CONFIG), config);
    },
    says: /bad_tokenizer.*tokenizer/,
  },
];

/** Things in the repository that are no models and must not disturb those that are. */
async function litter(repository: string): Promise<void> {
  await writeFile(join(repository, "a_file"), "x");
  await symlink("nowhere", join(repository, "dangling"));
  await symlink("loop", join(repository, "loop"));
  await mkdir(join(repository, "simple_with_loops", "1"), { recursive: true });
  await cp(join(EXAMPLES, "simple"), join(repository, "simple_with_loops"), { recursive: true });
  await writeFile(join(repository, "simple_with_loops", CONFIG), ONNX);
  for (const name of ["a", "b", "c"]) await symlink(".", join(repository, "simple_with_loops", name));
  await symlink("self", join(repository, "simple_with_loops", "self"));
  await symlink("gone", join(repository, "simple_with_loops", "2"));
}

let repository: string;
let server: ServerProcess;
before(async () => {
  repository = await mkdtemp(join(tmpdir(), "nereid-rubbish-"));
  await cp(join(EXAMPLES, "simple"), join(repository, "simple"), { recursive: true });
  await litter(repository);
  for (const { name, make } of MODELS) await make(join(repository, name));
  server = await startServerProcess({
    repositories: [repository],
    flags: ["--exit-on-error=false", "--strict-readiness=false"],
    waitFor: "live",
  });
});
after(async () => {
  await server.stop();
  await rm(repository, { recursive: true, force: true });
});

for (const { name, says } of MODELS) {
  test(`the log says what is wrong with ${JSON.stringify(name)}`, () => {
    const lines = server
      .log()
      .split("\n")
      .filter((line) => /^[EW]/.test(line) && says.test(line));
    assert.notEqual(
      lines.length,
      0,
      server
        .log()
        .split("\n")
        .filter((line) => /^[EW]/.test(line))
        .join("\n"),
    );
    assert.doesNotMatch(lines.join("\n"), /Internal error/);
  });
}

test("a model that loads serves beside those that do not", () => assertSound(server));

test("links that lead nowhere or in circles neither stop the start nor hide a model", async () => {
  const reply = await fetch(`${server.baseUrl}/v2/models/simple_with_loops/ready`);
  assert.equal(reply.status, 200, server.log());
});

test("the index and the ready state are right for every folder", async () => {
  const index = await fetch(`${server.baseUrl}/v2/repository/index`, { method: "POST" });
  const rows = (await index.json()) as readonly { readonly name: string; readonly state?: string }[];
  const ready = rows.filter(({ state }) => state === "READY").map((row) => row.name);
  assert.deepEqual(ready.sort(), ["simple", "simple_with_loops"]);
  for (const { name } of MODELS) {
    const { status } = await fetch(`${server.baseUrl}/v2/models/${encodeURIComponent(name)}/ready`);
    assert.equal(status, 400, name);
  }
});
