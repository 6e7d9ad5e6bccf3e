/** The tools that write single files, killed with -9 while they write: what was there stays whole, and the next run works. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { after, before, describe, test } from "node:test";
import { type SafetensorsEntry, safetensorsHeader } from "@nereid/offline/checkpoint/safetensors-writer";
import { cliCommand, runCli } from "@nereid/server/cli/cli.test-support";
import { isUnfinishedName } from "@nereid/server/core/unfinished-name";

const HIDDEN = 256;
const WIDE = 1024;
const VOCABULARY = 30_000;
const LAYERS = 4;
const POLL_MS = 2;

let folder = "";
let model = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "killed-onnx-"));
  model = await mkdtemp(join(folder, "model-"));
  await writeBert(model);
});
after(() => rm(folder, { recursive: true }));

/** A model of zeros in a sparse file, which takes no disk space. */
async function writeBert(directory: string): Promise<void> {
  const plan = (name: string, ...shape: number[]): SafetensorsEntry => ({ name, dtype: "F32", shape });
  const linear = (name: string, rows: number, columns: number): SafetensorsEntry[] => [
    plan(`${name}.weight`, rows, columns),
    plan(`${name}.bias`, rows),
  ];
  const norm = (name: string): SafetensorsEntry[] => [plan(`${name}.weight`, HIDDEN), plan(`${name}.bias`, HIDDEN)];
  const layer = (at: string): SafetensorsEntry[] => [
    ...["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"].flatMap(
      (name) => linear(`${at}.${name}`, HIDDEN, HIDDEN),
    ),
    ...norm(`${at}.attention.output.LayerNorm`),
    ...linear(`${at}.intermediate.dense`, WIDE, HIDDEN),
    ...linear(`${at}.output.dense`, HIDDEN, WIDE),
    ...norm(`${at}.output.LayerNorm`),
  ];
  const plans = [
    plan("embeddings.word_embeddings.weight", VOCABULARY, HIDDEN),
    plan("embeddings.position_embeddings.weight", 512, HIDDEN),
    plan("embeddings.token_type_embeddings.weight", 2, HIDDEN),
    ...norm("embeddings.LayerNorm"),
    ...Array.from({ length: LAYERS }, (_, i) => layer(`encoder.layer.${i}`)).flat(),
  ];
  const header = safetensorsHeader(plans);
  const numBytes = plans.reduce((sum, { shape }) => sum + 4 * shape.reduce((a, b) => a * b, 1), 0);
  const path = join(directory, "model.safetensors");
  await writeFile(path, Buffer.concat([header, Buffer.alloc(numBytes)]));
  const config = { model_type: "bert", vocab_size: VOCABULARY, hidden_size: HIDDEN, intermediate_size: WIDE };
  const sizes = { num_hidden_layers: LAYERS, num_attention_heads: 4, hidden_act: "gelu" };
  await writeFile(join(directory, "config.json"), JSON.stringify({ ...config, ...sizes }));
}

/** Once something unfinished lies in the folder, or the tool is done. */
async function beginsToWrite(directory: string, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const names = await readdir(directory).catch(() => []);
    for (const name of names.filter(isUnfinishedName)) {
      const path = join(directory, name);
      const { size = 0 } = (await stat(path).catch(() => undefined)) ?? {};
      const inside = await readdir(path).catch(() => []);
      if (size > 4096 || inside.length > 0) return;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function killWhileWriting(argv: readonly string[], directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  const child = spawn(process.execPath, cliCommand(argv), { stdio: "ignore" });
  await beginsToWrite(directory, () => child.exitCode !== null);
  child.kill("SIGKILL");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

interface Tool {
  readonly argv: () => readonly string[];
  readonly target: () => string;
}

const exported = (): string => join(folder, "bert", "model.onnx");
const TOOLS: readonly (readonly [name: string, tool: Tool])[] = [
  [
    "onnx export",
    {
      argv: () => ["onnx", "export", "--model", model, "--output", dirname(exported()), "--quiet"],
      target: exported,
    },
  ],
  [
    "onnx quantize",
    {
      argv: () => ["onnx", "quantize", "--input", exported(), "--output", join(folder, "int8", "model.onnx"), "-q"],
      target: () => join(folder, "int8", "model.onnx"),
    },
  ],
  [
    "trtexec",
    {
      argv: () => [
        "trtexec",
        `--onnx=${exported()}`,
        `--saveEngine=${join(folder, "plan", "model.plan")}`,
        "--skipInference",
        "--quiet",
      ],
      target: () => join(folder, "plan", "model.plan"),
    },
  ],
];

describe("a tool that is killed while it writes a file leaves none, and works when it is run again", () => {
  for (const [name, { argv, target }] of TOOLS) {
    test(`nereid ${name}`, async () => {
      const watched = name === "onnx export" ? folder : dirname(target());
      await killWhileWriting(argv(), watched);
      assert.equal(existsSync(target()), false);
      const { code, stderr } = await runCli(argv());
      assert.equal(code, 0, stderr);
      assert.ok((await stat(target())).size > 1000);
      assert.deepEqual((await readdir(watched)).filter(isUnfinishedName), []);
    });
  }
});

test("nereid fill-template that is killed leaves each configuration as it was or filled, and fills the rest", async () => {
  const repository = join(folder, "repository");
  const filler = "# nothing but room\n".repeat(100_000);
  const template = `name: "m"\nparameters { key: "k" value: { string_value: "\${engine_dir}" } }\n${filler}`;
  const filled = template.replace(/\$\{engine_dir\}/, "/engine");
  const names = ["a", "b", "c", "d"];
  for (const name of names) {
    await mkdir(join(repository, name), { recursive: true });
    await writeFile(join(repository, name, "config.pbtxt"), template);
  }
  const argv = ["fill-template", "-i", repository, "engine_dir:/engine"];
  const read = (): Promise<string[]> =>
    Promise.all(names.map((name) => readFile(join(repository, name, "config.pbtxt"), "utf8")));
  await killWhileWriting(argv, join(repository, "a"));
  for (const text of await read()) assert.ok(text === template || text === filled);
  const { code, stderr } = await runCli(argv);
  assert.equal(code, 0, stderr);
  for (const text of await read()) assert.ok(text === filled);
  for (const name of names) {
    const others = (await readdir(join(repository, name))).filter((other) => other !== "config.pbtxt");
    assert.deepEqual(others, others.filter(isUnfinishedName));
  }
});
