import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { ENVIRONMENT_PAGE, ENVIRONMENT_TABLES, type EnvironmentTable, environmentPage } from "./environment-page.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const IS_SHIPPED = /\.(ts|cjs)$/;
const IS_TEST = /(\.test|\.bench|\.test-support)\.ts$|\/testing\//;
/** Variables as names of fields, of an object that is called `env` or `environment`, or is taken from one. */
const READS: readonly RegExp[] = [
  /\b(?:env|environment|base)\.([A-Z][A-Z0-9_]*|npm_\w+)\b/g,
  /\b(?:env|environment)\[["']([^"']+)["']\]/g,
];
const TAKEN = /\{([^{}]*)\}(?:: \w+)? = (?:process\.env|env|environment)\b/g;

function sources({ folders, module }: EnvironmentTable): readonly (readonly [path: string, text: string])[] {
  return folders
    .flatMap((folder) =>
      readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: "utf8" }).map((path) => `${folder}/${path}`),
    )
    .filter((path) => IS_SHIPPED.test(path) && !IS_TEST.test(path) && path !== module)
    .map((path) => [path, readFileSync(`${ROOT}${path}`, "utf8")]);
}

function namesRead(text: string): readonly string[] {
  const fields = READS.flatMap((pattern) => [...text.matchAll(pattern)].map(([, name = ""]) => name));
  const taken = [...text.matchAll(TAKEN)].flatMap(([, names = ""]) =>
    names
      .split(",")
      .map((one) => /^\s*([A-Za-z_]\w*)/.exec(one)?.[1] ?? "")
      .filter((name) => name !== ""),
  );
  return [...fields, ...taken];
}

test("docs/environment.md is as the tables make it", () => {
  assert.equal(readFileSync(ENVIRONMENT_PAGE, "utf8"), environmentPage(ENVIRONMENT_TABLES));
});

test("namesRead() finds every form in which code reads a variable", () => {
  const text =
    'env.A_B; environment["C"]; process.env.D ??= "1"; const { E, F: f = "" }: Environment = process.env; x.env.npm_command';
  assert.deepEqual(namesRead(text), ["A_B", "D", "npm_command", "C", "E", "F"]);
});

for (const table of ENVIRONMENT_TABLES) {
  test(`every variable that ${table.package} reads is in its table`, () => {
    const unknown = sources(table).flatMap(([path, text]) =>
      namesRead(text)
        .filter((name) => !Object.hasOwn(table.variables, name))
        .map((name) => `${path}: ${name}`),
    );
    assert.deepEqual(unknown, []);
  });

  test(`every variable in the table of ${table.package} is read, and none is for tests`, () => {
    const all = sources(table)
      .map(([, text]) => text)
      .join("\n");
    const isRead = (name: string): boolean => name === "TZ" || new RegExp(`\\b${name}\\b`).test(all);
    const names = Object.keys(table.variables);
    assert.deepEqual(
      names.filter((name) => !isRead(name) || /(^|_)(TEST|FAULT)(_|$)/.test(name)),
      [],
    );
    assert.doesNotMatch(all, /NEREID_TEST/);
  });
}
