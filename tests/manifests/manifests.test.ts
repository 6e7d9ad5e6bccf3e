/** Manifests of `packaging`: they parse, and their flags, ports, probes, metrics and times are those of the server. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import { parseServerFlags } from "../../server/src/config/flags/parse-server-flags.ts";
import { matchRoute } from "../../server/src/protocol/http/routes/router.ts";

const PACKAGING = fileURLToPath(new URL("../../packaging/", import.meta.url));
const METRICS = fileURLToPath(new URL("../../server/src/", import.meta.url));
const DEFAULT_EXIT_TIMEOUT = 30;

const files = readdirSync(PACKAGING, { recursive: true, encoding: "utf8" }).sort();
const yamlFiles = files.filter((path) => /\.ya?ml$/.test(path) && !path.includes("/templates/"));
const texts = files.filter((path) => /\.(?:ya?ml|hcl|service)$/.test(path));

type Node = Readonly<Record<string, unknown>>;

function documentsOf(path: string): readonly Node[] {
  return parseAllDocuments(readFileSync(join(PACKAGING, path), "utf8"), { merge: true }).map((document) => {
    assert.deepEqual(document.errors, [], path);
    return document.toJS() as Node;
  });
}

/** Every object inside of a document that has the key. */
function having(node: unknown, key: string): readonly Node[] {
  if (typeof node !== "object" || node === null) return [];
  const inner = Object.values(node).flatMap((value) => having(value, key));
  return key in node ? [node as Node, ...inner] : inner;
}

test("all manifests parse", () => {
  assert.ok(yamlFiles.length > 15, `${yamlFiles.length} files`);
  for (const path of yamlFiles) documentsOf(path);
});

for (const path of texts) {
  const text = readFileSync(join(PACKAGING, path), "utf8").replace(/\{\{.*?\}\}/g, "1");
  const flags = text
    .split("tritonserver")
    .slice(1)
    .flatMap((part) => serverFlags(part));
  if (flags.length === 0) continue;
  test(`${path}: the server takes its flags`, () => {
    const parsed = parseServerFlags(flags, {});
    assert.equal(parsed.kind, "options", JSON.stringify(parsed));
  });
}

/** The flags of one command line: up to the first line without any. */
function serverFlags(text: string): readonly string[] {
  const lines = text.split("\n");
  const end = lines.findIndex((line, i) => i > 0 && !/--[a-z]/.test(line));
  return lines.slice(0, end === -1 ? undefined : end).flatMap((line) => line.match(/--[a-z-]+=[^\s",\]]+/g) ?? []);
}

for (const path of yamlFiles.filter(
  (each) => each.startsWith("kubernetes/") && /httpGet|GracePeriod/.test(readFileSync(join(PACKAGING, each), "utf8")),
)) {
  test(`${path}: probes ask for paths that the server has, and pods outlive their drain`, () => {
    for (const document of documentsOf(path)) {
      for (const { httpGet } of having(document, "httpGet")) {
        const { path: asked } = httpGet as { readonly path: string };
        assert.notEqual(matchRoute(asked), undefined, asked);
      }
      for (const pod of having(document, "terminationGracePeriodSeconds")) {
        const text = JSON.stringify(pod);
        const seconds = (name: string, byDefault: number): number =>
          Number(new RegExp(`--${name}=(\\d+)`).exec(text)?.[1] ?? byDefault);
        const needed = seconds("drain-delay-secs", 0) + seconds("exit-timeout-secs", DEFAULT_EXIT_TIMEOUT);
        assert.ok(Number(pod.terminationGracePeriodSeconds) > needed, `${needed} s`);
      }
    }
  });
}

test("metrics that manifests name are those of the server", () => {
  const source = readdirSync(METRICS, { recursive: true, encoding: "utf8" })
    .filter((path) => path.includes("metrics") && path.endsWith(".ts"))
    .map((path) => readFileSync(join(METRICS, path), "utf8"))
    .join("\n");
  const names = texts.flatMap((path) => readFileSync(join(PACKAGING, path), "utf8").match(/\bnv_[a-z_]+/g) ?? []);
  assert.ok(names.includes("nv_inference_pending_request_count"));
  assert.deepEqual(
    [...new Set(names)].filter((name) => !source.includes(name) && !source.includes(name.replace("nv_inference_", ""))),
    [],
  );
});

test("selectors of the base choose the pods of its deployment", () => {
  const base = yamlFiles.filter((path) => path.startsWith("kubernetes/base/")).flatMap(documentsOf);
  const deployment = base.find(({ kind }) => kind === "Deployment");
  assert.ok(deployment !== undefined);
  const { template } = deployment.spec as { template: { metadata: { labels: Node } } };
  const selectors = base.flatMap((document) =>
    having(document.spec, "matchLabels").map(({ matchLabels }) => matchLabels),
  );
  assert.ok(selectors.length >= 4, `${selectors.length} selectors`);
  for (const selector of selectors)
    for (const [name, value] of Object.entries(selector as Node))
      assert.equal(template.metadata.labels[name], value, name);
});
