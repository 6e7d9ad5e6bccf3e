import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { insideName, TarReader } from "./read-tar.ts";
import { pax, type TarEntry, tarOf } from "./tar-writer.test-support.ts";

const LIMITS = { maxEntries: 20, maxBytes: 2 ** 34 };
const LONG = `m/${"very-long-name/".repeat(10)}file`;
const FOLDER = mkdtempSync(join(tmpdir(), "nereid-tar-"));
after(() => rmSync(FOLDER, { recursive: true }));

/** Chunks of so many bytes, as a stream may give them. */
async function* chunksOf(archive: Buffer, numBytes: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < archive.length; at += numBytes) yield archive.subarray(at, at + numBytes);
}

/** Each entry as "kind name -> target: content". */
async function read(archive: Buffer, { chunkBytes = 1000, limits = LIMITS, skips = false } = {}): Promise<string[]> {
  const reader = new TarReader(chunksOf(archive, chunkBytes), limits);
  const lines: string[] = [];
  for (let entry = await reader.next(); entry !== undefined; entry = await reader.next()) {
    let content = "";
    if (!skips) for await (const part of reader.content()) content += Buffer.from(part).toString();
    const target = entry.target === "" ? "" : ` -> ${entry.target}`;
    lines.push(`${entry.kind} ${entry.name}${target}: ${content}`);
  }
  return lines;
}

/** GNU's base-256 form of a length (the first bit marks it). */
function base256(length: bigint): (header: Buffer) => void {
  return (header) => {
    header.fill(0, 124, 136);
    header[124] = 0x80;
    header.writeBigUInt64BE(length, 128);
  };
}

/** GNU puts times at the place of POSIX's prefix. */
const gnuTimes = (header: Buffer): void => void header.write("14502074400\x0014502074401\0", 345);
const GNU = "ustar  \0";

const READABLE: readonly (readonly [what: string, entries: readonly TarEntry[], lines: readonly string[]])[] = [
  [
    "ustar",
    [
      { name: "m/a", content: "1" },
      { name: "m/", type: "5" },
    ],
    ["file m/a: 1", "folder m: "],
  ],
  [
    "a ustar prefix",
    [{ name: "a", content: "1", patch: (header) => void header.write("far/away", 345) }],
    ["file far/away/a: 1"],
  ],
  ["Version 7, without a magic", [{ name: "a", content: "1", magic: "", type: "\0" }], ["file a: 1"]],
  ["a contiguous file", [{ name: "a", content: "1", type: "7" }], ["file a: 1"]],
  ["pax names", [pax({ path: LONG, mtime: "1.5" }), { name: "short", content: "1" }], [`file ${LONG}: 1`]],
  ["pax targets", [pax({ linkpath: LONG }), { name: "l", type: "2", link: "x" }], [`symlink l -> ${LONG}: `]],
  ["pax lengths", [pax({ size: "5" }), { name: "a", content: "12345", bytes: 0 }], ["file a: 12345"]],
  [
    "pax of the whole archive",
    [{ name: "g", type: "g", content: "20 comment=of a tree\n" }, { name: "a" }],
    ["file a: "],
  ],
  [
    "GNU long names",
    [
      { name: "././@LongLink", type: "L", content: `${LONG}\0` },
      { name: "s", content: "1" },
    ],
    [`file ${LONG}: 1`],
  ],
  [
    "GNU long targets",
    [
      { name: "././@LongLink", type: "K", content: `${LONG}\0` },
      { name: "l", type: "1" },
    ],
    [`hardlink l -> ${LONG}: `],
  ],
  ["GNU incremental", [{ name: "m/a", content: "1", magic: GNU, patch: gnuTimes }], ["file m/a: 1"]],
  ["a base-256 length", [{ name: "a", content: "123", patch: base256(3n) }], ["file a: 123"]],
  ["symbolic links", [{ name: "l", type: "2", link: "../../etc" }], ["symlink l -> ../../etc: "]],
  ["hard links", [{ name: "l", type: "1", link: "m/a" }], ["hardlink l -> m/a: "]],
  [
    "hard links with a content",
    [{ name: "l", type: "1", link: "a", content: "1" }, { name: "b" }],
    ["hardlink l -> a: 1", "file b: "],
  ],
  [
    "./ and slashes at the end",
    [
      { name: "./", type: "5" },
      { name: "./m//", type: "5" },
    ],
    ["folder .: ", "folder m: "],
  ],
  ["names that stay inside", [{ name: "m/../a" }], ["file a: "]],
  ["nothing", [], []],
];

for (const [what, entries, lines] of READABLE) {
  test(`a tar archive is read: ${what}`, async () => {
    for (const chunkBytes of [1, 511, 512, 100_000])
      assert.deepEqual(await read(tarOf(entries), { chunkBytes }), lines);
  });
}

const REFUSED: readonly (readonly [what: string, entries: readonly TarEntry[], reason: RegExp])[] = [
  [
    "a sparse file of GNU",
    [{ name: "a", type: "S", magic: GNU }],
    /'a' is a file with holes: only files, folders and links/,
  ],
  [
    "a sparse file of pax 0.1",
    [pax({ "GNU.sparse.map": "0,1", path: "a" }), { name: "b" }],
    /'a' is a file with holes/,
  ],
  [
    "a sparse file of pax 1.0",
    [pax({ "GNU.sparse.major": "1", "GNU.sparse.name": "a" }), { name: "b" }],
    /'a' is a file with holes/,
  ],
  ["a list of folders of GNU incremental", [{ name: "m", type: "D", magic: GNU }], /'m' is of type 'D'/],
  ["a device", [{ name: "null", type: "3" }], /'null' is a device/],
  ["a pipe", [{ name: "p", type: "6" }], /'p' is a pipe/],
  ["an absolute name", [{ name: "/etc/evil" }], /entry '\/etc\/evil' leads out of the archive/],
  ["a name that goes up", [{ name: "../evil" }], /entry '\.\.\/evil' leads out/],
  ["a name that goes up in the middle", [{ name: "m/../../evil" }], /leads out/],
  [
    "a prefix that goes up",
    [{ name: "evil", patch: (header) => void header.write("..", 345) }],
    /entry '\.\.\/evil' leads out/,
  ],
  ["a pax name that goes up", [pax({ path: "../evil" }), { name: "fine" }], /leads out/],
  ["a long name that goes up", [{ name: "L", type: "L", content: "../evil\0" }, { name: "fine" }], /leads out/],
  ["a folder that goes up", [{ name: "../evil/", type: "5" }], /leads out/],
  ["a link whose own name goes up", [{ name: "../l", type: "2", link: "x" }], /leads out/],
  ["a file without a name", [{ name: "" }], /a file without a name/],
  ["a wrong checksum", [{ name: "a", wrongBy: 1 }], /at byte 0 of the archive is no tar header: its checksum is wrong/],
  [
    "a length that is not octal",
    [{ name: "a", patch: (header) => void header.write("9", 124) }],
    /the length at byte 0 .* expected octal digits/,
  ],
  [
    "a base-256 length that is out of range",
    [{ name: "a", patch: base256(2n ** 63n) }],
    /the length at byte 0 .* is 9223372036854775808/,
  ],
  [
    "more bytes than the limit",
    [{ name: "a", patch: base256(2n ** 34n + 1n) }],
    /unpacks to more than 17179869184 bytes/,
  ],
  ["more entries than the limit", Array.from({ length: 21 }, (_, i) => ({ name: `${i}` })), /more than 20 entries/],
  ["a pax length below 0", [pax({ size: "-1" }), { name: "a" }], /gives an entry the length '-1'/],
  ["pax records that are none", [{ name: "x", type: "x", content: "99 a=b\n" }], /attributes that cannot be read/],
  ["a pax record without a key", [{ name: "x", type: "x", content: "5 =b\n" }], /attributes that cannot be read/],
  [
    "a note that is too long",
    [{ name: "x", type: "x", bytes: 2 ** 20 + 1 }],
    /an attribute of 1048577 bytes, expected at most 1048576/,
  ],
];

for (const [what, entries, reason] of REFUSED) {
  test(`a tar archive is refused: ${what}`, async () => {
    await assert.rejects(
      read(tarOf(entries)),
      (error: Error) => error instanceof RangeError && reason.test(error.message),
    );
  });
}

const WHOLE = tarOf([
  { name: "m/a", content: "a".repeat(700) },
  { name: "m/b", content: "b" },
]);

test("a tar archive is refused when it is cut off, anywhere before its end", async () => {
  const lengths = Array.from({ length: 2560 / 64 + 1 }, (_, i) => 64 * i);
  for (const skips of [false, true]) {
    for (const length of lengths) await assert.rejects(read(WHOLE.subarray(0, length), { skips }), /cut off/);
  }
  assert.equal((await read(WHOLE.subarray(0, 3072))).length, 2);
});

test("entries whose content nobody reads are skipped", async () => {
  assert.deepEqual(await read(WHOLE, { skips: true }), ["file m/a: ", "file m/b: "]);
});

test("padding behind the end is read up to 16 MiB", async () => {
  const padded = (numBytes: number): Buffer => Buffer.concat([WHOLE.subarray(0, 2560), Buffer.alloc(512 + numBytes)]);
  assert.equal((await read(padded(2 ** 24 - 1), { chunkBytes: 2 ** 20 })).length, 2);
  await assert.rejects(read(padded(2 ** 24), { chunkBytes: 2 ** 20 }), /goes on for more than 16777216 bytes/);
});

for (const format of ["gnu", "pax", "v7", "ustar", "oldgnu"]) {
  test(`archives of the system's tar are read in the format ${format}`, async () => {
    const folder = join(FOLDER, format);
    mkdirSync(join(folder, "m"), { recursive: true });
    writeFileSync(join(folder, "m", "config"), "config");
    symlinkSync("config", join(folder, "m", "link"));
    const archive = execFileSync("tar", ["-C", folder, `--format=${format}`, "--sort=name", "-cf", "-", "m"]);
    assert.deepEqual(await read(archive), ["folder m: ", "file m/config: config", "symlink m/link -> config: "]);
  });
}

test("`insideName()` normalizes and says what leads out", () => {
  assert.equal(insideName("./a//b/", "link"), "a/b");
  for (const name of ["..", "../a", "/a", "a/../..", "a\0b"]) {
    assert.throws(() => insideName(name, "link 'l'"), /^RangeError: link 'l' leads out of the archive$/);
  }
});
