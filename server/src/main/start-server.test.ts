import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { parseServerFlags } from "../config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../observe/log.ts";
import { startServer } from "./start-server.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-start-"));
after(() => rmSync(folder, { recursive: true }));
const [models, file] = [join(folder, "models"), join(folder, "file")];
mkdirSync(models);
writeFileSync(file, "");

function optionsOf(flags: readonly string[]): ServerOptions {
  const listeners = ["--http-address=127.0.0.1", "--http-port=0", "--allow-grpc=false", "--allow-metrics=false"];
  const parsed = parseServerFlags([...listeners, ...flags], {});
  assert.equal(parsed.kind, "options");
  return (parsed as { options: ServerOptions }).options;
}

function logTo(errors: string[]): ServerLog {
  return new ServerLog(DEFAULT_LOG_SETTINGS, { sink: { out: () => undefined, err: (line) => void errors.push(line) } });
}

/** Faults of the setup, which are no model's: by the flags of the start and the error. */
const FAULTS: readonly { readonly title: string; readonly flags: readonly string[]; readonly error: RegExp }[] = [
  { title: "no repository", flags: [], error: /Invalid argument: --model-repository must be specified/ },
  {
    title: "a repository that is not there, beside one that is",
    flags: [`--model-repository=${models}`, `--model-repository=${folder}/none`],
    error: /Internal: failed to stat file .*none/,
  },
  {
    title: "a repository that is a file",
    flags: [`--model-repository=${file}`, "--strict-readiness=false"],
    error: /Invalid argument: repository path is not a valid directory/,
  },
  {
    title: "two caches",
    flags: [`--model-repository=${models}`, "--cache-config=local,size=1048576", "--cache-config=redis,host=h,port=1"],
    error: /found multiple cache configurations/,
  },
];

for (const { title, flags, error } of FAULTS) {
  test(`startServer() with ${title} ends, or stays neither live nor ready with --exit-on-error=false`, async () => {
    const errors: string[] = [];
    const reason = new RegExp(error.source.replace(/^[^:]*: /, ""));
    await assert.rejects(startServer(optionsOf(flags), logTo(errors)), { message: reason });
    const explicit = ["--exit-on-error=false", "--model-control-mode=explicit"];
    const running = await startServer(optionsOf([...flags, ...explicit]), logTo(errors));
    const base = `http://127.0.0.1:${running.endpoints.get("http")?.port}`;
    const answers = new Map<string, string>();
    const ask = async (path: string, method = "GET"): Promise<void> => {
      const reply = await fetch(base + path, { method });
      answers.set(path, `${reply.status} ${(await reply.text()).replace(/"extensions".*/, "")}`);
    };
    try {
      for (const path of ["/v2/health/live", "/v2/health/ready", "/v2/models/m/ready", "/v2/models/m"]) await ask(path);
      for (const path of ["/v2/repository/index", "/v2/repository/models/m/load"]) await ask(path, "POST");
      await ask("/v2");
    } finally {
      await running.stop();
    }
    const notReady = '503 {"error":"Server not ready"}';
    assert.deepEqual(Object.fromEntries(answers), {
      "/v2/health/live": "400 ",
      "/v2/health/ready": "400 ",
      "/v2/models/m/ready": '400 {"error":"Model version not ready"}',
      "/v2/models/m": notReady,
      "/v2/repository/index": notReady,
      "/v2/repository/models/m/load": notReady,
      "/v2": '200 {"name":"triton","version":"2.70.0",',
    });
    assert.match(errors.join(""), error);
  });
}
