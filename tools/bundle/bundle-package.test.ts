import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { bundlePackage, writeBundle } from "./bundle-package.ts";
import { workspaceModules } from "./workspace-modules.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const home = mkdtempSync(join(tmpdir(), "nereid-bundle-"));
after(() => rmSync(home, { recursive: true }));

function write(files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(home, path)), { recursive: true });
    writeFileSync(join(home, path), text);
  }
}

const PACKAGE = {
  "package.json": '{ "name": "@nereid/example", "type": "module" }',
  "tsconfig.json": '{ "compilerOptions": { "rootDir": "src" } }',
  "src/core/fault.ts": "export class Fault extends Error {}\nexport const count = { made: 0 };",
  "src/core/place.ts": "export const place: string = import.meta.url;",
  "src/start.ts": `import { count, Fault } from "./core/fault.ts";
    import { place } from "./core/place.ts";
    export function start(): Fault { count.made++; return new Fault(place); }
    export const own: string = import.meta.url;
    export const later = async () => (await import("./later.ts")).isFault;`,
  "src/later.ts":
    'import { Fault } from "./core/fault.ts";\nexport const isFault = (thrown: unknown) => thrown instanceof Fault;',
  "src/core/other.ts":
    'export { count, Fault } from "./fault.ts";\nexport { place } from "./place.ts";\nexport const own: string = import.meta.url;',
};

test("modules that several files of a bundle reach exist once, and know where they would lie alone", async () => {
  write(PACKAGE);
  await writeBundle(home, await bundlePackage(home, ["src/start.ts", "src/core/other.ts"]));
  const urlOf = (file: string): string => pathToFileURL(join(home, "dist", file)).href;
  const start = await import(urlOf("start.js"));
  const other = await import(urlOf("core/other.js"));
  const fault: Error = start.start();
  assert.ok(fault instanceof other.Fault);
  assert.equal(other.count.made, 1);
  assert.equal((await start.later())(fault), true);
  assert.equal(fault.message, urlOf("core/place.js"));
  assert.deepEqual([start.own, other.own, other.place], ["start.js", "core/other.js", "core/place.js"].map(urlOf));
});

test("a build replaces the modules of the one before, and leaves declarations alone", async () => {
  write({ ...PACKAGE, "dist/old.js": "", "dist/chunks/old.js.map": "", "dist/old.d.ts": "" });
  const bundle = await bundlePackage(home, ["src/later.ts"]);
  await writeBundle(home, bundle);
  assert.deepEqual(
    ["old.js", "chunks/old.js.map", "old.d.ts", "later.js"].map((file) => existsSync(join(home, "dist", file))),
    [false, false, true, true],
  );
  assert.match(readFileSync(join(home, "dist/later.js"), "utf8"), /sourceMappingURL=later\.js\.map/);
});

test("a build names the import that leads nowhere", async () => {
  write({ ...PACKAGE, "src/lost.ts": 'import "./nowhere.ts";' });
  await assert.rejects(bundlePackage(home, ["src/lost.ts"]), /nowhere\.ts/);
});

test("each module of the server is in one file of its bundle", async () => {
  const folders = ["wire", "server", "images", "retrieval", "object-stores", "onnx-tools", "offline"];
  const members = folders.map((folder) => {
    return { folder, manifest: JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8")) };
  });
  const { entries = [] } = (await workspaceModules(ROOT, members)).get("@nereid/server") ?? {};
  for (const program of ["src/cli/nereid.ts", "src/main/engine-host.ts", "src/protocol/http/json/json-thread.ts"]) {
    assert.ok(entries.includes(program), program);
  }
  const { metafile } = await bundlePackage(join(ROOT, "server"), entries);
  const places = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs));
  assert.ok(places.length > 500, `${places.length} modules`);
  assert.deepEqual(
    places.filter((module, index) => places.indexOf(module) !== index),
    [],
  );
});
