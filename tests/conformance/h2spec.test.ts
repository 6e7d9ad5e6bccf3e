/**
 * The cases of h2spec against the port that all protocols share, and against the one of gRPC. Needs Go and the module of
 * h2spec, once; skipped where they are not to be had.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { goTool } from "../support/go-tool.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const { program, reason } = goTool({ name: "h2spec", module: "github.com/summerwind/h2spec/cmd/h2spec" });
const folder = join(tmpdir(), "nereid-h2spec");
const CLOSE_WAIT = "08";
const NUM_RUNS = 3;

const TOO_LARGE = "http2/4.2 Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE";
/** The frame has 20 KB; h2spec takes the default of 16 KB for granted, where the settings here allow 256 KB. */
const DEVIATIONS = [TOO_LARGE];
/** A connection that does not begin as HTTP/2 is HTTP/1.1 here, and answered so. */
const SHARED_PORT_DEVIATIONS = ["http2/3.5 Sends invalid connection preface", ...DEVIATIONS];
interface Outcome {
  readonly numPassed: number;
  readonly failed: readonly string[];
}

/** Cases by section and name. */
async function run(program: string, port: number, path: string): Promise<Outcome> {
  const report = join(folder, `report-${port}.xml`);
  const flags = ["-h", "127.0.0.1", "-p", String(port), "-P", path, "-o", "1", "-j", report];
  await promisify(execFile)(program, flags).catch((error: { code?: unknown }) => {
    if (error.code !== 1) throw error; // 1: some case failed
  });
  const xml = readFileSync(report, "utf8");
  const failed: string[] = [];
  let numPassed = 0;
  for (const [, section, name, body = ""] of xml.matchAll(
    /<testcase package="([^"]*)" classname="([^"]*)"[^>]*?(\/>|>.*?<\/testcase>)/gs,
  )) {
    if (body.includes("<failure") || body.includes("<error")) failed.push(`${section} ${name}`);
    else if (!body.includes("<skipped")) numPassed += 1;
  }
  return { numPassed, failed };
}

/**
 * Cases that fail three times in a row. Some send a request in two pieces and assume that it is not answered between
 * them, which a busy machine does not keep.
 */
async function failures(program: string, port: number, path: string, known: readonly string[]): Promise<string[]> {
  let failed: string[] | undefined;
  for (let k = 0; k < NUM_RUNS && (failed === undefined || failed.length > known.length); k++) {
    const outcome = await run(program, port, path);
    assert.ok(outcome.numPassed > 130, `only ${outcome.numPassed} cases passed`);
    failed = outcome.failed.filter((name) => failed === undefined || failed.includes(name));
  }
  return (failed ?? []).sort();
}

/** Sockets of a port whose clients have left and that are still open. */
function numLeftOpen(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/));
  return rows.filter(([, address = "", , state]) => address.endsWith(local) && state === CLOSE_WAIT).length;
}

describe("h2spec", { skip: reason ?? false }, () => {
  let server: ServerProcess;
  before(async () => {
    const models = join(folder, "models");
    mkdirSync(models, { recursive: true });
    server = await startServerProcess({ repositories: [models] });
  });
  after(() => server.stop());

  it("finds nothing at the port of gRPC but what is known and explained, and leaves no socket behind", async () => {
    assert.deepEqual(await failures(program ?? "", server.grpc, "/", DEVIATIONS), DEVIATIONS);
    for (let k = 0; k < 100 && numLeftOpen(server.grpc) > 0; k++) await sleep(50);
    assert.equal(numLeftOpen(server.grpc), 0);
  });

  it("finds nothing at the shared port but what is known and explained, and does not delay the end", async () => {
    const models = join(folder, "models");
    const shared = await startServerProcess({ repositories: [models], flags: ["--one-port=true"] });
    assert.deepEqual(await failures(program ?? "", shared.http, "/v2", SHARED_PORT_DEVIATIONS), SHARED_PORT_DEVIATIONS);
    await sleep(1500);
    assert.equal(numLeftOpen(shared.http), 0);
    await shared.stop();
  });
});
