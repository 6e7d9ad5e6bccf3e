/** Alert rules and dashboards by promtool, Prometheus's own checker. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { longTestsReason } from "../support/long-tests.ts";
import { ALERTS, DASHBOARDS, type Dashboard, expressionsOf } from "./expressions.ts";

const MODULE = "github.com/prometheus/prometheus@v0.304.2";
const PROMTOOL = fileURLToPath(new URL("../../.cache/tools/promtool", import.meta.url));
const hasGo = spawnSync("go", ["version"]).status === 0;
const skip = longTestsReason ?? (hasGo || existsSync(PROMTOOL) ? false : "needs Go, to build promtool");
/** Values for Grafana's variables. */
const VARIABLES: readonly (readonly [RegExp, string])[] = [
  [/\$__rate_interval/g, "5m"],
  [/\$(?:instance|model|gpu|key)\b/g, ".*"],
];

let folder = "";
before(() => {
  folder = mkdtempSync(join(tmpdir(), "nereid-promtool-"));
  if (skip === false && !existsSync(PROMTOOL)) build();
});
after(() => rmSync(folder, { recursive: true }));

/** `go install` refuses a module with replaced dependencies, so it is built in its own folder. */
function build(): void {
  const { Dir } = JSON.parse(run("go", ["mod", "download", "-json", MODULE])) as { Dir: string };
  run("go", ["build", "-C", Dir, "-o", PROMTOOL, "./cmd/promtool"]);
}

function run(program: string, argv: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, argv, { encoding: "utf8" });
  assert.equal(status, 0, `${program} ${argv.join(" ")}: ${error ?? ""}\n${stdout}${stderr}`);
  return stdout;
}

test("the alert rules are valid, and each fires and stays silent as it should", { skip }, () => {
  assert.match(run(PROMTOOL, ["check", "rules", "--lint=all", "--lint-fatal", ALERTS]), /SUCCESS: 11 rules found/);
  const tests = ALERTS.replace(".yml", ".test.yml");
  run(PROMTOOL, ["test", "rules", tests]);
  const tried = new Set(readFileSync(tests, "utf8").match(/alertname: \w+/g));
  assert.equal(tried.size, 11);
});

test("the expressions of the dashboards are PromQL", { skip }, () => {
  const rules = readdirSync(DASHBOARDS).flatMap((name) => {
    const dashboard = JSON.parse(readFileSync(join(DASHBOARDS, name), "utf8")) as Dashboard;
    return expressionsOf({ ...dashboard, templating: { list: [] } });
  });
  const text = rules.map((rule) => VARIABLES.reduce((filled, [name, value]) => filled.replace(name, value), rule));
  const path = join(folder, "dashboards.yml");
  const group = { name: "dashboards", rules: text.map((expr, index) => ({ record: `panel:${index}`, expr })) };
  writeFileSync(path, JSON.stringify({ groups: [group] }));
  assert.match(run(PROMTOOL, ["check", "rules", path]), new RegExp(`SUCCESS: ${rules.length} rules found`));
});
