import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterEach, beforeEach, test } from "node:test";
import { cliCommand, runCli } from "@nereid/server/cli/cli.test-support";
import { freePort } from "../../../tests/support/server-process.ts";

const LOOPBACK = ["http", "grpc", "metrics"].map((name) => `--${name}-address=127.0.0.1`);
const CONFIG = `backend: "identity"
max_batch_size: 0
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
`;

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "nereid-launch-"));
  mkdirSync(join(root, "repo", "net", "1"), { recursive: true });
  writeFileSync(join(root, "repo", "net", "config.pbtxt"), CONFIG);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const ports = async (): Promise<string[]> => [
  `--http_port=${await freePort()}`,
  `--grpc-port=${await freePort()}`,
  `--metrics_port=${await freePort()}`,
];

test("nereid launch serves in the foreground until it is told to stop, and its exit code is the server's", async () => {
  const http = await freePort();
  const log = join(root, "log.txt");
  const flags = [
    "--world_size",
    "2",
    "--model_repo",
    join(root, "repo"),
    `--http_port=${http}`,
    "--grpc_port=0",
    "--metrics-port=0",
  ];
  const argv = cliCommand([
    "launch",
    ...flags,
    "--log",
    "--log-file",
    log,
    "--force",
    "--oversubscribe",
    "--",
    ...LOOPBACK,
  ]);
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "pipe"] });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdout.resume();
  const ended = once(child, "exit");
  const isReady = (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${http}/v2/health/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isReady())) {
    assert.equal(child.exitCode, null, stderr);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const body = JSON.stringify({ inputs: [{ name: "INPUT0", datatype: "FP32", shape: [1], data: [5] }] });
  const answer = await fetch(`http://127.0.0.1:${http}/v2/models/net/infer`, { method: "POST", body });
  assert.equal(answer.status, 200);
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
  assert.match(stderr, /one process drives 2 GPUs/);
  assert.match(readFileSync(log, "utf8"), /strict_model_config +\| 1/);
});

test("nereid launch says why models did not load, and ends with 1", async () => {
  writeFileSync(join(root, "repo", "net", "config.pbtxt"), CONFIG.replace("max_batch_size", "max_batchsize"));
  const run = await runCli(["launch", "--model_repo", join(root, "repo"), ...(await ports()), "--", ...LOOPBACK]);
  assert.equal(run.code, 1);
  assert.match(
    run.stderr,
    /error: creating server: Internal - failed to load all models\n\nWhy models did not load:\n.*config\.pbtxt:2: error: .*did you mean 'max_batch_size'/,
  );
});

test("nereid serve points to doctor when models did not load", async () => {
  const repository = join(root, "repo");
  writeFileSync(join(repository, "net", "config.pbtxt"), CONFIG.replace("max_batch_size", "max_batchsize"));
  const flags = [`--model-repository=${repository}`, "--allow-grpc=false", "--allow-metrics=false", ...LOOPBACK];
  const run = await runCli(["serve", ...flags, `--http-port=${await freePort()}`]);
  assert.equal(run.code, 1);
  assert.match(run.stderr, /failed to load all models\nThe log says .* nereid doctor .*repo\n$/);
});

test("nereid launch says when a port is taken", async () => {
  const holder = createServer();
  await once(holder.listen(0, "127.0.0.1"), "listening");
  const address = holder.address();
  const port = typeof address === "object" ? address?.port : undefined;
  try {
    const flags = ["--model_repo", join(root, "repo"), `--http_port=${port}`, `--grpc_port=${await freePort()}`];
    const run = await runCli(["launch", ...flags, `--metrics_port=${await freePort()}`, "--", ...LOOPBACK]);
    assert.equal(run.code, 1);
    assert.match(run.stderr, new RegExp(`${port}`));
    assert.doesNotMatch(run.stderr, /Why models/);
  } finally {
    holder.close();
  }
});

for (const [title, argv, expected] of [
  ["nothing", [], /<agent> is missing: claude, codex/],
  ["an agent that it does not know", ["emacs"], /<agent> is one of claude, codex, .*, got 'emacs'/],
  ["no repository", ["--http_port=8004"], /--model_repo is missing/],
  [
    "several models on several ranks",
    ["--model_repo=r", "--multi-model", "--world_size=2"],
    /--multi_model needs --world_size 1/,
  ],
  ["a world of nobody", ["--model_repo=r", "--world_size=0"], /at least 1/],
  ["a flag with a typing error", ["--model_repo=r", "--htp_port=1"], /did you mean --http-port\?/],
] as const) {
  test(`nereid launch refuses ${title}`, async () => {
    const run = await runCli(["launch", ...argv]);
    assert.equal(run.code, 2);
    assert.match(run.stderr, expected);
  });
}

test("nereid names the command that was probably meant", async () => {
  const run = await runCli(["lanch"]);
  assert.equal(run.code, 1);
  assert.match(run.stderr, /there is no command 'lanch'; did you mean 'launch'\?/);
  assert.equal(existsSync(join(root, "triton_log.txt")), false);
});
