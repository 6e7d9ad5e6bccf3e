/** `nereid tune` as users call it: on a server of its own, and on one that runs. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { startServerProcess } from "../support/server-process.ts";

const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "nereid-tune-"));
const repository = join(folder, "models");
const CONFIG = `# slow
backend: "fault" max_batch_size: 4
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 2 ] } ] output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 2 ] } ]
parameters { key: "latency_ms" value { string_value: "30" } }
`;
mkdirSync(join(repository, "slow/1"), { recursive: true });
writeFileSync(join(repository, "slow/config.pbtxt"), CONFIG);
after(() => rmSync(folder, { recursive: true, force: true }));

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly errors: string;
}

function tune(...flags: string[]): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const argv = [NEREID, "tune", "-q", ...flags, "-p", "200"];
    execFile(process.execPath, argv, { timeout: 240_000, cwd: folder }, (error, out, errors) => {
      const code = typeof error?.code === "number" ? error.code : error === null ? 0 : -1;
      if (code < 0) reject(new Error(out + errors));
      else resolve({ code, out, errors });
    });
  });
}

const SPACE = [
  "--run-config-search-max-instance-count=2",
  "--run-config-search-max-model-batch-size=1",
  "--queue-delays=0",
];

test("a server of its own is tuned, and its repository stays as it is", async () => {
  const output = ["--output-model-repository-path=tuned", "-e", "report"];
  const { code, out } = await tune("-m", repository, "-n", "slow", ...SPACE, "-c", "1,4", ...output);
  assert.equal(code, 0);
  assert.match(out, /Best: instance_count 2, max_batch_size 1, max_queue_delay_microseconds 0, concurrency 4/);
  const written = readFileSync(join(folder, "tuned/slow/config.pbtxt"), "utf8");
  assert.match(written, /instance_group \{\n {2}count: 2\n\}/);
  assert.match(written, /string_value: "30"/);
  assert.equal(readFileSync(join(repository, "slow/config.pbtxt"), "utf8"), CONFIG);
  const report = JSON.parse(readFileSync(join(folder, "report/tune.json"), "utf8")) as {
    readonly results: readonly { readonly points: readonly { readonly perf_throughput: number }[] }[];
  };
  assert.equal(report.results[0]?.points.length, 4);
  assert.match(readFileSync(join(folder, "report/tune.html"), "utf8"), /slow: Pareto front/);
  assert.match(
    readFileSync(join(folder, "report/tune.csv"), "utf8"),
    /^Model,Batch,Concurrency,Satisfies Constraints,/,
  );
  const again = await tune("-m", repository, "-n", "slow", ...SPACE, ...output);
  assert.equal(again.code, 1);
  assert.match(again.errors, /config\.pbtxt is there already\nAdd --override-output-model-repository/);
});

test("a running server has its configuration back, and a budget that nothing keeps ends with 1", async () => {
  const flags = ["--model-control-mode=explicit", "--load-model=slow"];
  const server = await startServerProcess({ repositories: [repository], flags });
  try {
    const config = async (): Promise<unknown> => (await fetch(`${server.baseUrl}/v2/models/slow/config`)).json();
    const before = await config();
    const url = `127.0.0.1:${server.http}`;
    const { code, out } = await tune("-u", url, "-n", "slow", ...SPACE, "-c", "1", "-l", "5", "-e", "none");
    assert.equal(code, 1);
    assert.match(out, /No configuration keeps the constraints/);
    assert.equal(existsSync(join(folder, "output_model_repository/slow")), false);
    assert.deepEqual(await config(), before);
    const applied = ["--apply", "-c", "2", "--output-model-repository-path", "applied"];
    assert.equal((await tune("-u", url, "-n", "slow", ...SPACE, ...applied)).code, 0);
    const { instance_group: groups } = (await config()) as { instance_group: readonly { readonly count: number }[] };
    assert.deepEqual(
      groups.map(({ count }) => count),
      [2],
    );
  } finally {
    await server.stop();
  }
});

for (const [name, yaml, error] of [
  ["unknown", "model_repositry: x", /unknown key 'model_repositry'; did you mean 'model_repository'\?/],
  ["refused", "gpus: all", /'gpus' is missing here: set CUDA_VISIBLE_DEVICES/],
  ["metric", "constraints: { gpu_used_memory: { max: 200 } }", /constraints: 'gpu_used_memory' is not measured here/],
  [
    "model key",
    "profile_models: { slow: { cpuonly: true } }",
    /profile_models\.slow: unknown key 'cpuonly'; did you mean 'cpu_only'\?/,
  ],
] as const) {
  test(`a file of Model Analyzer with a wrong key (${name}) ends with its name`, async () => {
    const path = join(folder, `${name}.yaml`);
    writeFileSync(path, `${yaml}\n`);
    const { code, errors } = await tune("-f", path);
    assert.equal(code, 2);
    assert.match(errors, error);
  });
}
