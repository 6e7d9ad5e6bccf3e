/**
 * The image's root file system, assembled by the steps of the Dockerfile and entered read-only as an unprivileged user:
 * the sequence of a guide, clients, probes, and the end. Needs root on Debian and packages of Debian and npm.
 * NEREID_TEST_IMAGE names the folder of an earlier `npm run image -- --out=<folder>`, in place of a new one.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { folderBytes } from "../../tools/container/folder-bytes.ts";
import { imageSettings } from "../../tools/container/steps.ts";
import { GuideBook, guidesReason, withPaths } from "../recipes/guide-commands.ts";
import { writeRandomModel } from "../recipes/random-model.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { clientVenv } from "../support/python-checks.ts";
import { freePorts } from "../support/server-process.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MAX_BYTES = 400e6;
const READY_TIMEOUT_MS = 60_000;
const settings = imageSettings("cpu");

let scratch = "";
let out = "";
let models = "";
const skip = longTestsReason ?? guidesReason ?? machineReason() ?? false;

function machineReason(): string | undefined {
  if (!existsSync("/usr/bin/apt-get")) return "needs apt-get of Debian";
  return spawnSync("unshare", ["-m", "true"]).status === 0 ? undefined : "needs root, for a mount namespace";
}

before(() => {
  if (skip !== false) return;
  scratch = mkdtempSync(join(tmpdir(), "nereid-image-"));
  chmodSync(scratch, 0o755);
  models = join(scratch, "models");
  mkdirSync(models);
  writeRandomModel(join(models, "mistral-nemo"), "mistral");
  out = process.env.NEREID_TEST_IMAGE ?? scratch;
  if (out === scratch) {
    const argv = ["--import", "tsx", "tools/container/build-image.ts", `--out=${out}`];
    const { status, stderr } = spawnSync(process.execPath, argv, { cwd: ROOT, encoding: "utf8" });
    assert.equal(status, 0, stderr);
  }
  const copy = `cp -rL '${out}/rootfs/opt/nereid/shims/tensorrtllm_backend/all_models' models/ && chown -R 1000:1000 models`;
  const prepared = spawnSync("bash", ["-c", copy], { cwd: scratch, encoding: "utf8" });
  assert.equal(prepared.status, 0, prepared.stderr);
});
after(() => {
  if (scratch !== "") rmSync(scratch, { recursive: true, force: true });
});

/** A command inside, in a mount namespace of its own. */
function inside(words: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
  const lines = Object.entries({ ...settings.env, ...env }).map(([name, value]) => `${name}=${value}`);
  return spawn("unshare", ["-m", join(ROOT, "tools/container/enter.sh"), join(out, "rootfs"), ...words], {
    env: { ...process.env, MODELS: models, IMAGE_ENV: lines.join("\n") },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

async function ended(child: ChildProcess): Promise<Ended> {
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => (output += String(chunk)));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, output };
}

test("the root file system is small, and its files belong to packages that are named", { skip }, () => {
  const bytes = folderBytes(join(out, "rootfs"));
  assert.ok(bytes < MAX_BYTES, `${bytes} bytes`);
  const sbom: { packages: unknown[] } = JSON.parse(readFileSync(join(out, "rootfs/opt/nereid/sbom.spdx.json"), "utf8"));
  assert.ok(sbom.packages.length > 80, `${sbom.packages.length} packages`);
});

test("it runs unprivileged on a read-only root, with Python and numpy for models", { skip }, async () => {
  const script = "id -u; touch /x || echo read-only; python3 -c 'import numpy; print(numpy.linalg.inv([[2.0]])[0][0])'";
  const { code, output } = await ended(inside([...settings.entrypoint, "bash", "-c", script]));
  assert.equal(code, 0, output);
  assert.deepEqual(output.replace(/^touch.*\n/m, ""), "1000\nread-only\n0.5\n");
});

test("a guide's templates, server flags and requests work in it, and it ends with 0", { skip }, async () => {
  const ports = await freePorts();
  const paths = {
    "/trtback": "/models",
    "/models/mistral-nemo": "/models/mistral-nemo",
    "/engines/mistral-nemo-engine_v01": "/models/mistral-nemo",
    "localhost:5555": `127.0.0.1:${ports.http}`,
    "--http-port=5555": `--http-port=${ports.http} --http-address=127.0.0.1 --grpc-address=127.0.0.1 --metrics-address=127.0.0.1`,
    "--grpc-port=5556": `--grpc-port=${ports.grpc}`,
    "--metrics-port=5557": `--metrics-port=${ports.metrics}`,
  };
  const guide = new GuideBook().guide("--load-model=tensorrt_llm_bls", (block) => withPaths(block, paths));
  const filled = await ended(inside(["bash", "-euc", `cd /app\n${guide.block("fill_template.py")}`]));
  assert.equal(filled.code, 0, filled.output);
  const flags = guide.block("tritonserver --model-repository").replace(/^tritonserver/, "exec tritonserver");
  const server = inside([...settings.entrypoint, "bash", "-c", flags]);
  const end = ended(server);
  const url = `http://127.0.0.1:${ports.http}`;
  try {
    await untilReady(`${url}/v2/health/ready`, server);
    // Probes of KServe: the server, then the model.
    for (const path of ["v2/health/live", "v2/health/ready", "v2/models/ensemble/ready", "v2"])
      assert.equal((await fetch(`${url}/${path}`)).status, 200, path);
    const check = inside(settings.healthcheck, { NEREID_HEALTH_URL: `${url}/v2/health/ready` });
    assert.deepEqual(await ended(check), { code: 0, output: "" });
    for (const model of ["ensemble", "tensorrt_llm_bls"]) {
      const { output } = await ended(
        spawn("bash", ["-c", guide.block(`${model}/generate`).replace("curl", "curl -sS")]),
      );
      assert.match(output, new RegExp(`"model_name":"${model}"`));
    }
    assert.match(await askByClient(ports.grpc), /^True \['ensemble', 'postprocessing'/);
  } finally {
    server.kill("SIGTERM");
  }
  const { code, output } = await end;
  assert.equal(code, 0, output);
});

async function askByClient(port: number): Promise<string> {
  const script = join(scratch, "client.py");
  writeFileSync(
    script,
    `import tritonclient.grpc as c
client = c.InferenceServerClient("127.0.0.1:${port}")
print(client.is_server_ready(), sorted(m.name for m in client.get_model_repository_index().models))`,
  );
  assert.ok(clientVenv.python !== undefined, clientVenv.reason);
  return (await ended(spawn(clientVenv.python, [script]))).output;
}

async function untilReady(url: string, server: ChildProcess): Promise<void> {
  for (const deadline = Date.now() + READY_TIMEOUT_MS; Date.now() < deadline; await sleep(100)) {
    const { ok } = await fetch(url).catch(() => ({ ok: false }));
    if (ok) return;
    assert.equal(server.exitCode, null, "the server ended");
  }
  assert.fail(`${url} is not ready`);
}

test("the image file is one that registries take", { skip }, () => {
  const file = join(out, "nereid-cpu.tar");
  const listed = spawnSync("tar", ["-tf", file], { encoding: "utf8" }).stdout.trim().split("\n");
  assert.deepEqual(listed.filter((name) => !name.startsWith("blobs")).sort(), ["index.json", "oci-layout"]);
  assert.equal(listed.filter((name) => /^blobs\/sha256\/[0-9a-f]{64}$/.test(name)).length, 3);
});
