/** Rules of Triton's HTTP endpoint that need a server of their own: each profile is one server, asked in the order of its rows. */
import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { Agent } from "node:http";
import { describe, test } from "node:test";
import { parseServerFlags } from "../../server/src/config/flags/parse-server-flags.ts";
import { type RunningServer, startServer } from "../../server/src/main/start-server.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { createModelRepository } from "../support/model-repository.ts";
import { type HttpRow, saidIn, sendRow, titleOf } from "./http-row.ts";
import { SHM_BYTES, SHM_OBJECT } from "./profile-shm-rows.ts";
import { PROFILES, type ServerProfile } from "./server-profiles.ts";

const LISTENERS = ["http", "grpc", "metrics"].flatMap((name) => [`--${name}-address=127.0.0.1`, `--${name}-port=0`]);
/** Parameters that the identity backend puts into its responses: its doing, not the server's. */
const SAMPLE_PARAMETERS = /"parameters":\{"param0":[^}]*\},/;

interface Served extends AsyncDisposable {
  readonly running: RunningServer;
  readonly agent: Agent;
}

async function serve({ flags, repositories }: ServerProfile): Promise<Served> {
  const folders = await Promise.all(repositories.map((files) => createModelRepository({ files })));
  const argv = [...LISTENERS, ...folders.map(({ path }) => `--model-repository=${path}`), ...flags];
  const parsed = parseServerFlags(argv, {});
  assert.equal(parsed.kind, "options");
  const { options } = parsed as Extract<typeof parsed, { readonly kind: "options" }>;
  const log = new ServerLog(DEFAULT_LOG_SETTINGS, { sink: { out: () => undefined, err: () => undefined } });
  const running = await startServer(options, log);
  const agent = new Agent({ keepAlive: true });
  return {
    running,
    agent,
    async [Symbol.asyncDispose]() {
      agent.destroy();
      await running.stop();
      for (const folder of folders) await folder[Symbol.asyncDispose]();
    },
  };
}

function portOf({ running }: Served, name: "http" | "metrics"): number {
  return running.endpoints.get(name)?.port ?? 0;
}

async function check(served: Served, row: HttpRow): Promise<void> {
  const answer = await sendRow(portOf(served, row.at ?? "http"), row, served.agent);
  const said = saidIn(answer).replace(SAMPLE_PARAMETERS, "");
  if (typeof row.says === "string") assert.equal(said, row.says);
  else assert.match(said, row.says);
  assert.equal(answer.status, row.status);
  if (row.isTypeFree !== true) assert.equal(answer.type, row.type ?? "application/json");
}

async function checkPage(served: Served, { lines, without }: NonNullable<ServerProfile["metrics"]>): Promise<void> {
  const { text } = await sendRow(portOf(served, "metrics"), { to: "/metrics" }, served.agent);
  const page = text.split("\n");
  assert.deepEqual(
    lines.filter((line) => !page.includes(line)),
    [],
    text,
  );
  assert.deepEqual(
    without.filter((start) => page.some((line) => line.startsWith(start))),
    [],
  );
}

for (const profile of PROFILES) {
  describe(profile.name, async () => {
    writeFileSync(`/dev/shm/${SHM_OBJECT}`, Buffer.alloc(SHM_BYTES));
    const served = await serve(profile);
    for (const row of profile.rows) test(titleOf(row), () => check(served, row));
    const { metrics } = profile;
    if (metrics !== undefined) test("metrics page", () => checkPage(served, metrics));
    test("ends", async () => {
      await served[Symbol.asyncDispose]();
      rmSync(`/dev/shm/${SHM_OBJECT}`, { force: true });
    });
  });
}
