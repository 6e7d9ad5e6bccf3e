/** Promises of the examples: `nereid serve` prints requests that work unchanged, and the clients do what they say. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { clientVenv, runPython } from "../support/python-checks.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const COMMAND_TIMEOUT_MS = 240_000;
const skip = clientVenv.python === undefined ? clientVenv.reason : false;

interface Output {
  readonly code: number;
  readonly text: string;
}

let server: ServerProcess;
const scratch = mkdtempSync(join(tmpdir(), "nereid-examples-"));

before(async () => {
  server = await startServerProcess({
    repositories: [join(ROOT, "examples/model_repository")],
    command: [process.execPath, join(ROOT, "server/bin/nereid.cjs"), "serve"],
  });
});

after(async () => {
  await server.stop();
  rmSync(scratch, { recursive: true });
});

/** Runs a program to its end, in an empty folder. */
function run(program: string, args: readonly string[]): Promise<Output> {
  return new Promise((resolve) => {
    const options = { cwd: scratch, timeout: COMMAND_TIMEOUT_MS, maxBuffer: 1 << 24 };
    execFile(program, args, options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), text: `${stdout}${stderr}` });
    });
  });
}

/** Model name -> the command printed below it. */
function printedCommands(log: string): Map<string, string> {
  return new Map([...log.matchAll(/^# (\S+)\n(.+)$/gm)].map(([, model = "", command = ""]) => [model, command]));
}

test("`nereid serve` prints the READY table, the URLs and one command for each model", () => {
  const log = server.log();
  assert.match(log, /^\| ensemble +\| 1 +\| READY +\|$/m);
  assert.match(log, new RegExp(`^http +http://127\\.0\\.0\\.1:${server.http}$`, "m"));
  const models = [...log.matchAll(/^\| (\w+) +\| 1 +\| READY +\|$/gm)].map(([, name]) => name);
  assert.deepEqual([...printedCommands(log).keys()].sort(), models.sort());
});

test("every printed command works as it stands", { timeout: 600_000 }, async () => {
  const commands = printedCommands(server.log());
  assert.equal(commands.size >= 7, true, `only ${commands.size} commands were printed`);
  for (const [model, command] of commands) {
    const { code, text } = await run("bash", ["-c", command]);
    assert.equal(code, 0, `${model}: ${command}: ${text}`);
    assert.doesNotMatch(text, /"error"/, `${model}: ${command}`);
  }
  assert.equal(readFileSync(join(scratch, "answer.bin")).length > 1000, true);
});

test("text_statistics counts words, and tokens by another model; its types are up to date", async () => {
  const inputs = [{ name: "TEXT", datatype: "BYTES", shape: [2, 1], data: ["Once upon a time", "boats"] }];
  const response = await fetch(`${server.baseUrl}/v2/models/text_statistics/infer`, {
    method: "POST",
    body: JSON.stringify({ inputs }),
  });
  const { outputs }: { outputs: { name: string; data: unknown[] }[] } = JSON.parse(await response.text());
  const [words, tokens, longest] = ["WORDS", "TOKENS", "LONGEST_WORD"].map(
    (wanted) => outputs.find(({ name }) => name === wanted)?.data,
  );
  assert.deepEqual(words, [4, 1]);
  assert.deepEqual(longest, ["Once", "boats"]);
  assert.equal(
    tokens?.every((count) => Number(count) >= 1),
    true,
  );
  const nereid = join(ROOT, "server/bin/nereid.cjs");
  const { text } = await run(process.execPath, [nereid, "types", join(ROOT, "examples/model_repository")]);
  assert.match(text, /^up to date: .*text_statistics/m);
});

test("match-captions.mjs finds the caption of every image", async () => {
  const { code, text } = await run(process.execPath, [
    join(ROOT, "examples/clients/match-captions.mjs"),
    "--url",
    server.baseUrl,
  ]);
  assert.match(text, /^32 of 32 right$/m);
  assert.equal(code, 0);
});

test("typescript-client.mjs runs against the server", async () => {
  const { code, text } = await run(process.execPath, [
    join(ROOT, "examples/clients/typescript-client.mjs"),
    "--url",
    server.baseUrl,
  ]);
  assert.equal(code, 0, text);
});

test("make-simple-model.mjs writes the committed model, byte for byte", async () => {
  const committed = join(ROOT, "examples/model_repository/simple/1/model.onnx");
  const before = readFileSync(committed);
  const { code, text } = await run(process.execPath, [join(ROOT, "examples/make-simple-model.mjs")]);
  assert.equal(code, 0, text);
  assert.deepEqual(readFileSync(committed), before);
});

test("the Python clients run unchanged with tritonclient", { skip, timeout: 600_000 }, async () => {
  const clients = join(ROOT, "examples/clients/python");
  const simple = await runPython([join(clients, "simple_http.py"), "-u", `127.0.0.1:${server.http}`]);
  assert.equal(simple.code, 0, simple.stderr);
  const prompt = ["-p", "Once upon a time", "-o", "16"];
  for (const more of [[], ["-S"]]) {
    const text = await runPython([
      join(clients, "generate_grpc.py"),
      "-u",
      `127.0.0.1:${server.grpc}`,
      ...prompt,
      ...more,
    ]);
    assert.equal(text.code, 0, text.stderr);
    assert.notEqual(text.stdout.trim(), "");
  }
});
