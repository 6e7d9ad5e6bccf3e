/** The container image without building it: the Dockerfile is that of the steps, and the parts work on a small root. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { DOCKERFILE, renderDockerfile } from "../../tools/container/dockerfile.ts";
import { writeOciImage } from "../../tools/container/oci-image.ts";
import { packagesOf, spdxDocument } from "../../tools/container/sbom.ts";
import { imageSettings, stepsOf } from "../../tools/container/steps.ts";

const FOLDER = fileURLToPath(new URL("../../packaging/container/", import.meta.url));

let root = "";
before(() => {
  root = mkdtempSync(join(tmpdir(), "nereid-image-"));
  for (const folder of ["rootfs/var/lib/dpkg/status.d", "rootfs/opt/nereid/node_modules/@a/b", "rootfs/usr/bin"])
    mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, "rootfs/var/lib/dpkg/status.d/libc6"), "Package: libc6\nVersion: 2.36-9+deb12u1\n");
  writeFileSync(
    join(root, "rootfs/opt/nereid/node_modules/@a/b/package.json"),
    JSON.stringify({ name: "@a/b", version: "1.0.0", license: "MIT" }),
  );
  symlinkSync("usr/bin", join(root, "rootfs/bin"));
});
after(() => rmSync(root, { recursive: true, force: true }));

test("packaging/container/Dockerfile is rendered from the steps: node --import tsx tools/container/dockerfile.ts", () => {
  assert.equal(readFileSync(DOCKERFILE, "utf8"), renderDockerfile());
});

for (const { name, script } of stepsOf("cuda")) {
  test(`the step ${name} is a script that bash can read`, () => {
    const { status, stderr } = spawnSync("bash", ["-n"], { input: script, encoding: "utf8" });
    assert.deepEqual([status, stderr], [0, ""]);
  });
}

test("the Dockerfile pins its base, fetches nothing by ADD, and ends as an unprivileged user", () => {
  const lines = readFileSync(DOCKERFILE, "utf8").split("\n");
  const instructions = (name: string): string[] => lines.filter((line) => line.startsWith(`${name} `));
  assert.deepEqual(
    instructions("FROM").filter((line) => !/^FROM (?:node:\d+\.\d+\.\d+-\S+|scratch|build|root) AS \S+$/.test(line)),
    [],
  );
  assert.deepEqual(instructions("ADD"), []);
  assert.deepEqual(instructions("USER"), ["USER 1000:1000", "USER 1000:1000"]);
  assert.equal(instructions("FROM").at(-1), "FROM scratch AS cpu");
});

test("entry point, start scripts and health check hand on what they get", async () => {
  const entry = spawnSync("sh", [join(FOLDER, "entrypoint.sh"), "printf", "%s|", "a b", "$x"], { encoding: "utf8" });
  assert.deepEqual([entry.status, entry.stdout], [0, "a b|$x|"]);
  const env = { ...process.env, NEREID_HEALTH_URL: "http://127.0.0.1:1/" };
  const check = spawnSync(process.execPath, [join(FOLDER, "healthcheck.cjs")], { env, encoding: "utf8" });
  assert.equal(check.status, 1);
  assert.match(check.stderr, /^http:\/\/127\.0\.0\.1:1\/: .+\n$/);
});

test("the bill of materials names each package once, with a reference that scanners know", () => {
  const packages = packagesOf(join(root, "rootfs"), "24.9.0");
  const document = spdxDocument("nereid", packages, new Date(0));
  const entries = document.packages as readonly { externalRefs: readonly { referenceLocator: string }[] }[];
  assert.deepEqual(
    entries.map(({ externalRefs }) => externalRefs[0]?.referenceLocator),
    ["pkg:deb/debian/libc6@2.36-9%2Bdeb12u1", "pkg:generic/nodejs@24.9.0", "pkg:npm/%40a/b@1.0.0"],
  );
});

test("an image file has equal bytes for equal files, and says how to run it", async () => {
  const settings = imageSettings("cpu");
  const image = { rootfs: join(root, "rootfs"), settings, architecture: "amd64", name: "n:1", created: new Date(0) };
  await writeOciImage(image, join(root, "first.tar"));
  await writeOciImage(image, join(root, "second.tar"));
  assert.deepEqual(readFileSync(join(root, "first.tar")), readFileSync(join(root, "second.tar")));
  const read = (path: string): Record<string, unknown> =>
    JSON.parse(spawnSync("tar", ["-xOf", join(root, "first.tar"), path], { encoding: "utf8" }).stdout);
  const blob = ({ digest }: { readonly digest: string }) => read(`blobs/${digest.replace(":", "/")}`);
  const [manifest] = read("index.json").manifests as readonly { readonly digest: string }[];
  assert.ok(manifest !== undefined);
  const { config } = blob(blob(manifest).config as { digest: string }) as { config: Record<string, unknown> };
  assert.deepEqual(config.Cmd, ["tritonserver", "--model-repository=/models"]);
  assert.deepEqual(Object.keys(config.ExposedPorts as object), ["8000/tcp", "8001/tcp", "8002/tcp"]);
  assert.equal(config.User, "1000:1000");
});
