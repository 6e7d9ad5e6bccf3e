import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { bind, canReusePort, unixPath } from "./bind.ts";

test("unixPath() is what stands behind unix:", () => {
  assert.equal(unixPath("unix:/run/x.sock"), "/run/x.sock");
  assert.equal(unixPath("127.0.0.1"), undefined);
});

test("canReusePort() is true from 22.12 and 23.1 on", () => {
  const known = ["20.20.2", "22.11.0", "22.12.0", "23.0.0", "23.1.0", "24.0.0"];
  assert.deepEqual(
    known.filter((version) => canReusePort(version)),
    ["22.12.0", "23.1.0", "24.0.0"],
  );
});

test("bind() takes the path of a socket whose server was killed, and refuses that of one that lives", async () => {
  const folder = mkdtempSync(join(tmpdir(), "nereid-bind-"));
  const path = join(folder, "s.sock");
  const script = join(folder, "listen.mjs");
  writeFileSync(
    script,
    `import { createServer } from "node:net"; createServer().listen(${JSON.stringify(path)}, () => process.send("up"));`,
  );
  const child = fork(script, { execArgv: [] });
  await once(child, "message");
  const [first, second] = [createServer(), createServer()];
  await assert.rejects(bind(first, { address: `unix:${path}`, port: 0 }), { code: "EADDRINUSE" });
  child.kill("SIGKILL");
  await once(child, "exit");
  assert.deepEqual(await bind(second, { address: `unix:${path}`, port: 0 }), { address: `unix:${path}`, port: 0 });
  second.close();
  rmSync(folder, { recursive: true });
});

test("bind() leaves a file that is no socket alone", async () => {
  const folder = mkdtempSync(join(tmpdir(), "nereid-bind-"));
  const path = join(folder, "file");
  writeFileSync(path, "precious");
  await assert.rejects(bind(createServer(), { address: `unix:${path}`, port: 0 }), { code: "EADDRINUSE" });
  rmSync(folder, { recursive: true });
});

test("bind() listens at the address that was given, and at no other", async () => {
  for (const address of ["127.0.0.1", "127.0.0.2"]) {
    const server = createServer();
    assert.equal((await bind(server, { address, port: 0 })).address, address);
    server.close();
  }
});
