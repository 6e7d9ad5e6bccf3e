import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import { pax, type TarEntry, tarOf } from "../../../server/src/files/tar/tar-writer.test-support.ts";
import { filesIn, temporaryFolder } from "../open-stores.test-support.ts";
import { unpackTar } from "./unpack-tar.ts";

const LIMITS = { maxBytes: 1 << 20, maxEntries: 100 };

async function unpack(t: TestContext, archive: Buffer, isCompressed = false, limits = LIMITS) {
  const folder = temporaryFolder(t);
  const file = join(folder, "archive");
  const target = join(folder, "out");
  mkdirSync(target);
  writeFileSync(file, archive);
  const files = await unpackTar(file, isCompressed, target, limits, new AbortController().signal);
  return { files, found: filesIn(target), beside: readdirSync(folder) };
}

test("unpackTar() gives files, folders and hashes, and takes ./ and slashes at the end", async (t) => {
  const archive = tarOf([
    { name: "./", type: "5" },
    { name: "./m/", type: "5" },
    { name: "./m/1/", type: "5" },
    { name: "./m/config.pbtxt", content: "config" },
    { name: "m/2/weights", content: Buffer.alloc(3000, "x") },
    { name: "m/2/empty" },
  ]);
  const { files, found } = await unpack(t, archive);
  assert.deepEqual(found, { "m/1/": "", "m/2/empty": "", "m/2/weights": "x".repeat(3000), "m/config.pbtxt": "config" });
  assert.equal(files.get("m/config.pbtxt"), "b79606fb3afea5bd1609ed40b622142f1c98125abcfe89a76a661b0e8e343910");
  assert.equal(files.get("m/1"), "");
});

test("unpackTar() knows the long names of both kinds, and lengths in attributes", async (t) => {
  const long = `m/${"very-long-name/".repeat(10)}file`;
  const archive = tarOf([
    pax({ path: long, mtime: "1.5" }),
    { name: "short", content: "by attributes" },
    { name: "././@LongLink", type: "L", content: `${long}-2\0` },
    { name: "short", content: "by a long link" },
    { name: "pax_global_header", type: "g", content: "20 comment=of a tree\n" },
    pax({ size: "5" }),
    { name: "m/sized", content: "12345" },
  ]);
  const { found } = await unpack(t, archive);
  assert.deepEqual(found, { [long]: "by attributes", [`${long}-2`]: "by a long link", "m/sized": "12345" });
});

test("unpackTar() reads what the system's tar writes, compressed or not", async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, "m", "1"), { recursive: true });
  writeFileSync(join(folder, "m", "config.pbtxt"), "config");
  writeFileSync(join(folder, "m", "1", "n".repeat(150)), "long");
  for (const format of ["gnu", "ustar", "pax"].filter((each) => each !== "ustar")) {
    const plain = execFileSync("tar", ["-C", folder, `--format=${format}`, "-cf", "-", "m"]);
    const expected = { [`m/1/${"n".repeat(150)}`]: "long", "m/config.pbtxt": "config" };
    assert.deepEqual((await unpack(t, plain)).found, expected);
    assert.deepEqual((await unpack(t, gzipSync(plain), true)).found, expected);
  }
});

test("unpackTar() reads the names of a GNU incremental archive, and refuses its lists of folders", async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, "m"));
  writeFileSync(join(folder, "m", "config.pbtxt"), "config");
  const snapshot = ["-C", folder, "--format=gnu", "--incremental", "-cf", "-"];
  const file = execFileSync("tar", [...snapshot, "m/config.pbtxt"]);
  assert.deepEqual((await unpack(t, file)).found, { "m/config.pbtxt": "config" });
  await assert.rejects(unpack(t, execFileSync("tar", [...snapshot, "m"])), /'m' is of type 'D'/);
});

const EVIL: readonly (readonly [string, readonly TarEntry[], RegExp])[] = [
  ["a name that goes up", [{ name: "../evil", content: "x" }], /'\.\.\/evil' leads out of the archive/],
  ["a name that goes up in the middle", [{ name: "m/../../evil", content: "x" }], /leads out of the archive/],
  ["an absolute name", [{ name: "/etc/evil", content: "x" }], /leads out of the archive/],
  ["a long name that goes up", [pax({ path: "../evil" }), { name: "m/fine" }], /leads out of the archive/],
  ["a folder that goes up", [{ name: "../evil/", type: "5" }], /leads out of the archive/],
  ["a backslash", [{ name: "m\\..\\evil", content: "x" }], /it has a backslash/],
  ["a symbolic link", [{ name: "m/link", type: "2", link: "/etc/passwd" }], /'m\/link' is a link/],
  ["a link and a file beneath it", [{ name: "m", type: "2", link: "/tmp" }, { name: "m/evil" }], /'m' is a link/],
  ["a hard link", [{ name: "m/link", type: "1", link: "../../etc/passwd" }], /'m\/link' is a link/],
  ["a device", [{ name: "m/null", type: "3" }], /'m\/null' is a device/],
  ["a pipe", [{ name: "m/pipe", type: "6" }], /'m\/pipe' is a pipe/],
  ["a file with holes", [{ name: "m/sparse", type: "S" }], /'m\/sparse' is a file with holes/],
  ["a kind that nobody knows", [{ name: "m/x", type: "Z" }], /'m\/x' is of type 'Z'/],
  [
    "a name given twice",
    [
      { name: "m/a", content: "1" },
      { name: "m/a", content: "2" },
    ],
    /has 'm\/a' twice/,
  ],
  [
    "a file that is a folder as well",
    [{ name: "m/a", content: "1" }, { name: "m/a/b" }],
    /cannot be unpacked: ENOTDIR|EEXIST/,
  ],
  ["more than the limit", [{ name: "m/big", bytes: 2 ** 30 }], /unpacks to more than 1048576 bytes/],
  ["a length that is none", [pax({ size: "-1" }), { name: "m/a" }], /gives an entry the length '-1'/],
  ["too many entries", Array.from({ length: 101 }, (_, i) => ({ name: `m/${i}` })), /more than 100 entries/],
  ["an endless attribute", [{ name: "x", type: "x", bytes: 2 ** 30 }], /an attribute of 1073741824 bytes/],
  ["attributes that are none", [{ name: "x", type: "x", content: "99 a=b\n" }], /attributes that cannot be read/],
];
for (const [title, entries, reason] of EVIL) {
  test(`unpackTar() refuses ${title}`, async (t) => {
    const folder = temporaryFolder(t);
    symlinkSync("/tmp", join(folder, "elsewhere"));
    await assert.rejects(unpack(t, tarOf(entries)), reason);
  });
}

test("unpackTar() refuses what was cut off anywhere, and what is no archive", async (t) => {
  const whole = tarOf([
    { name: "m/a", content: "a".repeat(700) },
    { name: "m/b", content: "b" },
  ]);
  const packed = gzipSync(whole);
  for (const bytes of [0, 100, 512, 700, 1536, 1600, 2048, 2560]) {
    await assert.rejects(unpack(t, whole.subarray(0, bytes)), /cut off|cannot be unpacked: the archive ends/);
  }
  for (const bytes of [1, 20, packed.length - 9]) {
    await assert.rejects(unpack(t, packed.subarray(0, bytes), true), /cannot be unpacked|cut off/);
  }
  await assert.rejects(
    unpack(t, Buffer.alloc(2048, "x")),
    /no tar header: its checksum is wrong|expected octal digits/,
  );
  await assert.rejects(unpack(t, whole, true), /cannot be unpacked: incorrect header check/);
});

test("unpackTar() refuses every archive with one byte of a header changed", async (t) => {
  const whole = tarOf([{ name: "m/a", content: "a" }]);
  const lastOfChecksum = 155; // an ignored blank at its end
  for (const at of Array.from({ length: 512 }, (_, i) => i).filter((each) => each !== lastOfChecksum)) {
    const changed = Buffer.from(whole);
    changed[at] = (changed[at] ?? 0) ^ 0x15;
    await assert.rejects(unpack(t, changed), /checksum|octal|header/);
  }
});

test("unpackTar() stops a bomb at the limit", async (t) => {
  const bomb = gzipSync(tarOf([{ name: "m/zeros", content: Buffer.alloc(8 << 20) }]));
  assert.ok(bomb.length < 20_000);
  await assert.rejects(unpack(t, bomb, true), /unpacks to more than 1048576 bytes/);
});
