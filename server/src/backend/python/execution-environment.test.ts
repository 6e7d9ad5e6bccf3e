import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { options, venv } from "../../../../tests/fakes/python-fixture.ts";
import { openEnvironment } from "./execution-environment.ts";
import { unpackArchive } from "./unpack-archive.ts";

const LIMITS = { maxEntries: 100, maxBytes: 110_000 };

function folder(): string {
  return mkdtempSync(join(tmpdir(), "nereid-archive-"));
}

/** An archive made by Python's tarfile, entry by entry: [kind, name, content or target]. */
function archive(entries: readonly (readonly [string, string, string?])[]): string {
  const path = join(folder(), "env.tar.gz");
  const code = `
import io, json, sys, tarfile
KINDS = {"file": tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "sym": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE}
with tarfile.open(sys.argv[1], "w:gz", format=tarfile.PAX_FORMAT) as tar:
    for kind, name, *rest in json.loads(sys.argv[2]):
        info = tarfile.TarInfo(name)
        info.type, info.mode = KINDS[kind], 0o4755
        data = rest[0].encode() if rest else b""
        if kind == "file":
            info.size = len(data)
        else:
            info.linkname = data.decode()
        tar.addfile(info, io.BytesIO(data) if kind == "file" else None)
`;
  execFileSync(venv.python ?? "", ["-c", code, path, JSON.stringify(entries)]);
  return path;
}

test("`unpackArchive()` makes files, folders and links as they were packed", options, async () => {
  const long = `lib/${"deep/".repeat(40)}x.txt`;
  const path = archive([
    ["dir", "bin"],
    ["file", "bin/python3.11", "#!/bin/sh\n"],
    ["sym", "bin/python3", "python3.11"],
    ["hard", "bin/copy", "bin/python3.11"],
    ["sym", "lib/up", "../bin"],
    ["file", long, "y".repeat(100_000)],
  ]);
  const target = folder();
  await unpackArchive(path, target, LIMITS);
  assert.equal(readFileSync(join(target, "bin", "python3"), "utf8"), "#!/bin/sh\n");
  assert.equal(readFileSync(join(target, "bin", "copy"), "utf8"), "#!/bin/sh\n");
  assert.equal(readFileSync(join(target, long), "utf8").length, 100_000);
  assert.ok(lstatSync(join(target, "lib", "up")).isSymbolicLink());
  assert.equal(statSync(join(target, "bin", "python3.11")).mode & 0o7777, 0o755);
});

const ATTACKS: readonly (readonly [string, readonly (readonly [string, string, string?])[], RegExp])[] = [
  ["a name goes up", [["file", "a/../../evil", "x"]], /leads out of the archive/],
  ["a name is absolute", [["file", "/tmp/evil", "x"]], /leads out of the archive/],
  ["a link goes up", [["sym", "a/b", "../../evil"]], /leads out of the archive/],
  ["a link is absolute", [["sym", "a", "/etc"]], /leads out of the archive/],
  ["a hard link goes up", [["hard", "a", "../evil"]], /leads out of the archive/],
  [
    "a link goes up through another",
    [
      ["dir", "d"],
      ["sym", "d/l", ".."],
      ["sym", "d/l/e", "../.."],
    ],
    /goes through another link/,
  ],
  ["an entry is a pipe", [["fifo", "p"]], /only files, folders and links are unpacked/],
  [
    "there are too many",
    Array.from({ length: 101 }, (_, index) => ["dir", `d${index}`] as const),
    /more than 100 entries/,
  ],
  ["they are too large", [["file", "a", "x".repeat(120_000)]], /more than 110000 bytes/],
];
for (const [what, entries, expected] of ATTACKS) {
  test(`\`unpackArchive()\` refuses when ${what}`, options, async () => {
    const parent = folder();
    const target = join(parent, "inside");
    mkdirSync(target);
    await assert.rejects(unpackArchive(archive(entries), target, LIMITS), { message: expected });
    assert.deepEqual(readdirSync(parent), ["inside"]);
  });
}

test("`unpackArchive()` writes through no link that an earlier entry has made", options, async () => {
  const target = folder();
  await assert.rejects(
    unpackArchive(
      archive([
        ["sym", "a", "b"],
        ["file", "a/x", "data"],
      ]),
      target,
      LIMITS,
    ),
    { code: "EEXIST" },
  );
});

for (const [what, bytes] of [
  ["text", Buffer.from("no archive at all ".repeat(100))],
  ["a gzipped text", gzipSync(Buffer.from("no archive at all ".repeat(100)))],
  ["a cut block", Buffer.alloc(100, 1)],
] as const) {
  test(`\`unpackArchive()\` refuses when the file is ${what}`, async () => {
    const path = join(folder(), "env.tar.gz");
    writeFileSync(path, bytes);
    await assert.rejects(unpackArchive(path, folder(), LIMITS), RangeError);
  });
}

test("`openEnvironment()` unpacks an archive once, also when many models ask at the same time", options, async () => {
  const cache = join(folder(), "cache");
  const path = archive([["file", "bin/python3", "#!/bin/sh\n"]]);
  const opened = await Promise.all([1, 2, 3].map(() => openEnvironment(path, "m", { PATH: "/bin" }, cache)));
  const [first] = opened;
  assert.ok(existsSync(first?.interpreter ?? ""));
  assert.ok(opened.every(({ interpreter }) => interpreter === first?.interpreter));
  assert.equal(readdirSync(cache).length, 1);
  const { PATH, LD_LIBRARY_PATH } = first?.environment ?? {};
  assert.match(`${PATH} ${LD_LIBRARY_PATH}`, /^\S+\/bin:\/bin \S+\/lib$/);
});

test("`openEnvironment()` takes a folder as it is", async () => {
  const path = folder();
  mkdirSync(join(path, "bin"));
  symlinkSync("/bin/sh", join(path, "bin", "python"));
  assert.equal((await openEnvironment(path, "m", {})).interpreter, join(path, "bin", "python"));
});

test("`openEnvironment()` says what is wrong when there is nothing, or no interpreter", async () => {
  const at = { code: "invalid_argument" };
  await assert.rejects(openEnvironment("/no/such", "m", {}), {
    ...at,
    message: /EXECUTION_ENV_PATH of model 'm': '\/no\/such' does not exist/,
  });
  await assert.rejects(openEnvironment(folder(), "m", {}), { ...at, message: /has no interpreter bin\/python3/ });
});
