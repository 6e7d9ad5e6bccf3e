/**
 * Manifests rendered and validated by real tools: kubectl or kustomize, helm, systemd, schemas of Kubernetes (from PyPI)
 * and definitions of KServe, Knative, Gateway API and others (from Go modules).
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { pythonVenv } from "../python-venv.ts";
import { longTestsReason } from "../support/long-tests.ts";

const PACKAGING = fileURLToPath(new URL("../../packaging/", import.meta.url));
const CHART = join(PACKAGING, "kubernetes/helm/nereid");
const TOOLS = fileURLToPath(new URL("../../.cache/tools/", import.meta.url));
/** A helm of `go install` takes an old one for granted. */
const KUBE_VERSION = ["--kube-version", "1.33.0"];
/** Go modules with definitions, and the files in them. */
const DEFINITIONS: readonly (readonly [module: string, files: readonly string[]])[] = [
  [
    "github.com/kserve/kserve@v0.15.2",
    ["clusterservingruntimes", "servingruntimes", "inferenceservices"].map(
      (kind) => `config/crd/full/serving.kserve.io_${kind}.yaml`,
    ),
  ],
  ["knative.dev/serving@v0.45.0", ["config/core/300-resources/service.yaml"]],
  [
    "sigs.k8s.io/gateway-api-inference-extension@v1.0.0",
    ["config/crd/bases/inference.networking.k8s.io_inferencepools.yaml"],
  ],
  ["sigs.k8s.io/gateway-api@v1.3.0", ["config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"]],
  ["sigs.k8s.io/lws@v0.7.0", ["config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"]],
  [
    "github.com/prometheus-operator/prometheus-operator@v0.83.0",
    ["example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"],
  ],
];

const hasGo = spawnSync("go", ["version"]).status === 0;
const skip = longTestsReason ?? (hasGo ? false : "needs Go, for modules with definitions");
let folder = "";
let python = "";

before(async () => {
  if (skip !== false) return;
  folder = mkdtempSync(join(tmpdir(), "nereid-manifests-"));
  const venv = await pythonVenv(["kubernetes-validate==1.37.0"], "manifests");
  assert.ok(venv.python !== undefined, venv.reason);
  python = venv.python;
});
after(() => {
  if (folder !== "") rmSync(folder, { recursive: true, force: true });
});

function run(program: string, argv: readonly string[], env: Readonly<Record<string, string>> = {}): string {
  const options = { cwd: folder, encoding: "utf8", maxBuffer: 1 << 26, env: { ...process.env, ...env } } as const;
  const { status, stdout, stderr, error } = spawnSync(program, argv, options);
  assert.equal(status, 0, `${program} ${argv.join(" ")}: ${error ?? ""}\n${stdout}${stderr}`);
  return stdout;
}

function definitions(): readonly string[] {
  return DEFINITIONS.flatMap(([module, files]) => {
    const { Dir } = JSON.parse(run("go", ["mod", "download", "-json", module])) as { Dir: string };
    return files.map((file) => join(Dir, file));
  });
}

/** Built once into `.cache/tools`. */
function goTool(name: string, module: string): string {
  const path = join(TOOLS, name);
  if (!existsSync(path)) run("go", ["install", module], { GOBIN: TOOLS });
  return path;
}

test("base, chart and single manifests are valid by the schemas of their projects", { skip }, () => {
  const helm = goTool("helm", "helm.sh/helm/v3/cmd/helm@v3.18.3");
  run(helm, ["lint", "--strict", ...KUBE_VERSION, CHART]);
  const rendered = [
    ["base.yaml", run("kubectl", ["kustomize", join(PACKAGING, "kubernetes/base")])],
    ["chart.yaml", run(helm, ["template", "release", CHART, ...KUBE_VERSION, "--set", "podMonitor.enabled=true"])],
    [
      "claim.yaml",
      run(helm, [
        ...[
          "template",
          "nereid",
          CHART,
          ...KUBE_VERSION,
          "--set",
          "model=",
          "--set",
          "modelStorage.existingClaim=models",
        ],
        ...[
          "--set",
          "autoscaling.enabled=false",
          "--set-json",
          'nodeSelector={"a":"b"}',
          "--set-json",
          'extraArgs=["--strict-readiness=false"]',
        ],
      ]),
    ],
  ].map(([name = "", text = ""]) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  });
  const single = readdirSync(join(PACKAGING, "kubernetes")).filter((name) => name.endsWith(".yaml"));
  const paths = [...rendered, ...single.map((name) => join(PACKAGING, "kubernetes", name))];
  const script = fileURLToPath(new URL("check_manifests.py", import.meta.url));
  const output = run(python, [script, "--crd", ...definitions(), "--", ...paths]);
  assert.equal(output.trim().split("\n").length, 23, output);
});

test("the unit of systemd is one that systemd takes", { skip }, () => {
  run("systemd-analyze", ["verify", join(PACKAGING, "systemd/nereid.service")]);
});
