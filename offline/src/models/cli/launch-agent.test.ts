/** `nereid launch AGENT` with a server of another kind and a program in the agent's place. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { runCli } from "@nereid/server/cli/cli.test-support";

let root = "";
let server: Server;
let url = "";

before(async () => {
  root = mkdtempSync(join(tmpdir(), "nereid-agent-"));
  const script =
    '#!/bin/sh\necho "$ANTHROPIC_BASE_URL $ANTHROPIC_MODEL $(printenv ANTHROPIC_API_KEY || echo unset) $@"\nexit 7\n';
  writeFileSync(join(root, "claude"), script);
  chmodSync(join(root, "claude"), 0o755);
  server = createServer((_, response) =>
    response.end(JSON.stringify({ data: [{ id: "org/far", max_model_len: 512 }] })),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.close();
  rmSync(root, { recursive: true, force: true });
});

test("nereid launch AGENT starts the agent with its environment, and ends with its exit code", async () => {
  const env = { PATH: `${root}${delimiter}${process.env.PATH}`, ANTHROPIC_API_KEY: "elsewhere", XDG_CACHE_HOME: root };
  const run = await runCli(["launch", "claude", "--server", `${url}/`, "--", "--resume", "x"], env);
  assert.deepEqual([run.code, run.stdout], [7, `${url} org/far unset --resume x\n`]);
  assert.equal(run.stderr, `claude asks org/far at ${url}\n`);
});

test("nereid launch AGENT prints the environment, and says what is missing", async () => {
  const env = { XDG_CACHE_HOME: root };
  const [printed, absent, unknown, nobody] = await Promise.all([
    runCli(["launch", "codex", "--server", url, "--print", "--api-key", "secret"], env),
    runCli(["launch", "opencode", "--server", url], { ...env, PATH: root }),
    runCli(["launch", "claude", "--server", url, "--model", "org/near"], env),
    runCli(["launch", "claude", "--server", "http://127.0.0.1:1"], env),
  ]);
  assert.equal(printed.code, 0);
  assert.match(printed.stdout, /^export NEREID_API_KEY=secret\ncodex -c 'model_provider="nereid"' .* -m org\/far\n$/);
  assert.match(
    absent.stderr,
    /opencode could not be started: it is not on the PATH\nInstall it \(npm install -g opencode-ai\), or give --print/,
  );
  assert.match(unknown.stderr, /has no model 'org\/near': org\/far/);
  assert.match(nobody.stderr, /No server answers at http:\/\/127\.0\.0\.1:1\nStart one: nereid serve NAME/);
});
