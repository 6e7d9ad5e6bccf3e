/** `nereid conformance` as users call it, against the built server and against one that breaks the protocol. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { ProbeResult } from "../../perf/src/conformance/probe.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const NEREID = join(ROOT, "server/bin/nereid.cjs");
const folder = mkdtempSync(join(tmpdir(), "nereid-conformance-"));
let server: ServerProcess;

before(async () => {
  server = await startServerProcess({
    repositories: [join(ROOT, "tests/golden/repository/main")],
    flags: ["--model-control-mode=explicit", "--load-model=add_sub", "--load-model=string_identity"],
  });
});

after(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

function conformance(...flags: string[]): Promise<{ readonly code: number; readonly results: readonly ProbeResult[] }> {
  const path = join(folder, "report.json");
  const argv = [NEREID, "conformance", ...flags, "--report-json", path];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, argv, { timeout: 240_000 }, (error, stdout, stderr) => {
      const code = typeof error?.code === "number" ? error.code : error === null ? 0 : -1;
      if (code < 0) reject(new Error(stdout + stderr));
      else resolve({ code, results: (JSON.parse(readFileSync(path, "utf8")) as { results: ProbeResult[] }).results });
    });
  });
}

test("the server passes every probe", async () => {
  const html = join(folder, "report.html");
  const { code, results } = await conformance(
    `127.0.0.1:${server.http}`,
    "--grpc-url",
    `127.0.0.1:${server.grpc}`,
    "--html",
    html,
  );
  assert.deepEqual(
    results.filter(({ outcome }) => outcome === "failed"),
    [],
  );
  assert.equal(code, 0);
  assert.equal(results.filter(({ group }) => group === "model add_sub").length, 12);
  assert.match(readFileSync(html, "utf8"), /metadata over gRPC are those over HTTP/);
});

test("recorded answers of Triton are probes too", async () => {
  const golden = join(ROOT, "tests/golden");
  const { results } = await conformance(`127.0.0.1:${server.http}`, "-m", "add_sub", "--recorded", golden);
  const own = results.filter(({ name }) => name.startsWith("infer-json/") && name.includes("add-sub"));
  assert.ok(own.length > 0);
  assert.deepEqual(
    own.filter(({ outcome }) => outcome !== "passed"),
    [],
  );
  assert.ok(results.some(({ detail }) => detail === "no --grpc-url"));
});

test("a server that breaks the protocol fails by name", async () => {
  const metadata = {
    name: "m",
    inputs: [{ name: "A", datatype: "FP32", shape: [2] }],
    outputs: [{ name: "B", datatype: "FP32", shape: [2] }],
  };
  const wrong = { id: "probe-1", model_name: "m", outputs: [{ name: "B", datatype: "FP32", shape: [2], data: [1] }] };
  const broken = createServer((request, response) => {
    const isInfer = request.url?.endsWith("/infer") === true;
    response.end(
      JSON.stringify(isInfer ? wrong : request.url === "/v2" ? { name: "s", version: "1", extensions: [] } : metadata),
    );
  }).listen(0, "127.0.0.1");
  await once(broken, "listening");
  try {
    const address = broken.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const { code, results } = await conformance(`127.0.0.1:${port}`, "-m", "m");
    const failed = new Map(
      results.filter(({ outcome }) => outcome === "failed").map(({ name, detail }) => [name, detail]),
    );
    assert.equal(code, 1);
    assert.equal(failed.get("inference, JSON"), "number of values of B: expected 2, got 1");
    assert.match(failed.get("a body that is no JSON") ?? "", /expected a status from 400 on/);
    assert.equal(results.find(({ name }) => name === "index")?.outcome, "skipped");
  } finally {
    broken.close();
  }
});
