/** Rules of Triton's command line, each with values of our own. No process is started: flags are parsed, and the server is made. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { parseServerFlags } from "../../server/src/config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../../server/src/config/flags/server-options.ts";
import { startServer } from "../../server/src/main/start-server.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { NOT_CREATED, REFUSED, REFUSED_SETTINGS, TAKEN, WARNINGS } from "./command-rows.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-rules-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const REPOSITORY = `--model-repository=${folder}`;

function optionsOf(flags: readonly string[]): ServerOptions {
  const parsed = parseServerFlags([REPOSITORY, ...flags], {});
  assert.equal(parsed.kind, "options", parsed.kind === "usage" ? parsed.text : "");
  return (parsed as { readonly options: ServerOptions }).options;
}

function usageOf(flags: readonly string[], env: Readonly<Record<string, string>> = {}): readonly string[] {
  const parsed = parseServerFlags([REPOSITORY, ...flags], env);
  assert.equal(parsed.kind, "usage");
  const { text, exitCode } = parsed as { readonly text: string; readonly exitCode: number };
  assert.equal(exitCode, 1);
  return text.split("\n");
}

for (const [flag, says] of REFUSED) {
  test(`${flag} is refused`, () => {
    const lines = usageOf([flag]);
    const at = lines.indexOf(`Bad option: "${flag.slice(0, flag.indexOf("="))}".`);
    assert.notEqual(at, -1, lines[0]);
    assert.equal(lines[at + 1], says);
    assert.ok(lines.includes("Usage: tritonserver [options]"));
  });
}

for (const [flags, option, says] of REFUSED_SETTINGS) {
  test(`${flags.join(" ")} is refused`, () => {
    assert.deepEqual(usageOf(flags).slice(-3), [`Bad option: "${option}".`, says, ""]);
  });
}

test("a variable of OpenTelemetry that is no number is refused in its mode", () => {
  const env = { OTEL_BSP_SCHEDULE_DELAY: "later" };
  const lines = usageOf(["--trace-config=mode=opentelemetry"], env);
  assert.deepEqual(lines.slice(-3), ['Bad option: "OTEL_BSP_SCHEDULE_DELAY".', "Invalid option value. Got later", ""]);
  assert.equal(parseServerFlags([REPOSITORY], env).kind, "options");
});

for (const [flags, warnings] of WARNINGS) {
  test(`${flags.join(" ")} is deprecated`, () => assert.deepEqual(optionsOf(flags).warnings, warnings));
}

test("warnings stand before the error of a later flag", () => {
  assert.match(usageOf(["--trace-rate=5", "--log-info=x"])[0] ?? "", /^Warning: '--trace-rate' has been deprecated/);
});

for (const flags of TAKEN) test(`${flags.join(" ")} is taken`, () => assert.deepEqual(optionsOf(flags).warnings, []));

for (const [flags, code, says] of NOT_CREATED) {
  test(`${flags.join(" ")} creates no server`, async () => {
    const log = new ServerLog(DEFAULT_LOG_SETTINGS, { sink: { out: () => undefined, err: () => undefined } });
    await assert.rejects(startServer(optionsOf(flags), log), (error: { code: string; message: string }) => {
      assert.equal(error.code, code);
      assert.equal(error.message.slice(0, says.length), says);
      return true;
    });
  });
}
