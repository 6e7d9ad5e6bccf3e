import assert from "node:assert/strict";
import { linkSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  attribute,
  bytesField,
  externalTensor,
  graph,
  identity,
  intField,
  messageField,
  model,
  node,
  ONNX_TYPE,
  tensor,
  varint,
} from "../../../../tests/fakes/onnx-writer.ts";
import { checkExternalData, ExternalDataError } from "./external-data.ts";
import { OnnxFormatError, readExternalData } from "./model.ts";

const root = mkdtempSync(join(tmpdir(), "nereid-onnx-"));
const folder = join(root, "model");
mkdirSync(join(folder, "sub"), { recursive: true });
writeFileSync(join(root, "outside.bin"), Buffer.alloc(64));
writeFileSync(join(folder, "weights.bin"), Buffer.alloc(64));
writeFileSync(join(folder, "sub", "more.bin"), Buffer.alloc(64));
writeFileSync(join(folder, "twice.bin"), Buffer.alloc(64));
linkSync(join(folder, "twice.bin"), join(folder, "other-name.bin"));
symlinkSync(join(root, "outside.bin"), join(folder, "link.bin"));
symlinkSync(root, join(folder, "up"));
mkdirSync(join(folder, "*", "_ORT_MEM_ADDR_"), { recursive: true });
writeFileSync(join(folder, "*", "_ORT_MEM_ADDR_", "x"), Buffer.alloc(64));

const { FLOAT } = ONNX_TYPE;
const X = ["X", FLOAT, [4]] as const;
const Y = ["Y", FLOAT, [4]] as const;
const external = (entries: Record<string, string>): Uint8Array => externalTensor("w", FLOAT, [4], entries);
const plain = (parts: Partial<Parameters<typeof model>[0]>): Uint8Array =>
  model({ nodes: [node("Add", ["X", "w"], ["Y"])], inputs: [X], outputs: [Y], ...parts });

let files = 0;
function write(bytes: Uint8Array): string {
  const path = join(folder, `${files++}.onnx`);
  writeFileSync(path, bytes);
  return path;
}

test("readExternalData() finds a reference wherever a tensor can be", async () => {
  const hidden = external({ location: "weights.bin", offset: "8" });
  const sparse = Buffer.concat([bytesField(1, tensor("v", FLOAT, [1], Buffer.alloc(4))), bytesField(2, hidden)]);
  const subgraph = graph({ nodes: [], inputs: [], outputs: [], initializers: [hidden] });
  const deep = node("If", ["c"], ["o"], [attribute("then_branch", 5, [bytesField(6, subgraph)])]);
  const places: Record<string, Uint8Array> = {
    initializer: plain({ initializers: [hidden] }),
    "sparse initializer": plain({ graphExtra: [bytesField(15, sparse)] }),
    "node attribute": plain({ nodes: [node("Constant", [], ["w"], [attribute("value", 4, [bytesField(5, hidden)])])] }),
    "list of tensors": plain({ nodes: [node("Op", [], ["w"], [attribute("v", 9, [bytesField(10, hidden)])])] }),
    subgraph: plain({ nodes: [deep] }),
    "list of subgraphs": plain({ nodes: [node("Op", [], ["o"], [attribute("g", 10, [bytesField(11, subgraph)])])] }),
    "subgraph of a subgraph": plain({
      nodes: [
        node("If", [], ["o"], [attribute("b", 5, [bytesField(6, graph({ nodes: [deep], inputs: [], outputs: [] }))])]),
      ],
    }),
    "sparse attribute": plain({ nodes: [node("Constant", [], ["w"], [attribute("s", 11, [bytesField(22, sparse)])])] }),
    "sparse attributes": plain({
      nodes: [node("Constant", [], ["w"], [attribute("s", 12, [bytesField(23, sparse)])])],
    }),
    function: plain({
      modelExtra: [
        messageField(25, [
          messageField(7, [bytesField(4, "Constant"), attribute("value", 4, [bytesField(5, hidden)])]),
        ]),
      ],
    }),
    "default of a function": plain({
      modelExtra: [messageField(25, [messageField(11, [bytesField(1, "value"), bytesField(5, hidden)])])],
    }),
    training: plain({ modelExtra: [messageField(20, [bytesField(1, subgraph)])] }),
    "second graph field": plain({ modelExtra: [bytesField(7, subgraph)] }),
  };
  for (const [place, bytes] of Object.entries(places)) {
    assert.deepEqual(
      await readExternalData(write(bytes)),
      [
        {
          tensor: "w",
          entries: [
            ["location", "weights.bin"],
            ["offset", "8"],
          ],
        },
      ],
      place,
    );
  }
});

test("readExternalData() finds nothing where nothing is, also beyond the window", async () => {
  assert.deepEqual(await readExternalData(write(identity(FLOAT, ["N"]))), []);
  const big = tensor("big", FLOAT, [50_000], Buffer.alloc(200_000));
  assert.deepEqual(await readExternalData(write(plain({ initializers: [big] }))), []);
  const after = plain({ initializers: [big, external({ location: "x".repeat(60_000) })] });
  assert.equal((await readExternalData(write(after)))[0]?.entries[0]?.[1].length, 60_000);
});

test("readExternalData() refuses bytes that are no model", async () => {
  let nested: Uint8Array = new Uint8Array(0);
  for (let depth = 0; depth < 40; depth++) nested = bytesField(1, bytesField(5, bytesField(6, nested)));
  const table: [string, Uint8Array][] = [
    ["wire type 6", Uint8Array.of(14)],
    ["field number 0", Uint8Array.of(0, 0)],
    ["field number 536870919", Buffer.concat([varint(2n ** 32n + 58n), Uint8Array.of(0)])],
    ["beyond the end", Uint8Array.of(58, 100, 1)],
    ["beyond the end", Buffer.concat([Uint8Array.of(58), varint(2n ** 63n)])],
    ["cut off", Uint8Array.of(58, 0x80)],
    ["cut off", Uint8Array.of(13, 1, 2)],
    ["more than ten bytes", Buffer.alloc(20, 0xff)],
    ["inside each other", bytesField(7, nested)],
    ["a text of", plain({ initializers: [external({ location: "y".repeat(70_000) })] })],
    ["broken external_data", plain({ initializers: [messageField(13, [intField(1, 5)])] })],
  ];
  for (const [what, bytes] of table) {
    await assert.rejects(
      readExternalData(write(bytes)),
      (error) => error instanceof OnnxFormatError && error.message.includes(what),
      what,
    );
  }
});

test("readExternalData() ends on every cut and on random bytes", async () => {
  const whole = Buffer.from(plain({ initializers: [external({ location: "weights.bin" })] }));
  for (let length = 0; length <= whole.length; length++) {
    const outcome = await readExternalData(write(whole.subarray(0, length))).catch((error: unknown) => error);
    assert.ok(Array.isArray(outcome) || outcome instanceof OnnxFormatError);
  }
  let seed = 12345;
  for (let round = 0; round < 300; round++) {
    const bytes = Buffer.from(whole);
    for (let flips = 0; flips < 4; flips++) {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
      bytes[seed % bytes.length] = (seed >>> 16) & 255;
    }
    const outcome = await readExternalData(write(bytes)).catch((error: unknown) => error);
    assert.ok(Array.isArray(outcome) || outcome instanceof OnnxFormatError);
  }
});

test("checkExternalData() lets files beneath the model's folder through", async () => {
  for (const entries of [
    { location: "weights.bin" },
    { location: "weights.bin", offset: "32", length: "32", checksum: "abc" },
    { location: "./sub/more.bin", offset: "64" },
  ]) {
    await checkExternalData(write(plain({ initializers: [external(entries)] })));
  }
});

test("checkExternalData() refuses everything else", async () => {
  const table: [string, Record<string, string>][] = [
    ["leaves the model's folder", { location: "../outside.bin" }],
    ["leaves the model's folder", { location: "../../../../etc/passwd" }],
    ["leaves the model's folder", { location: "sub/../../outside.bin" }],
    ["leaves the model's folder", { location: "up/outside.bin" }],
    ["is absolute", { location: "/etc/passwd" }],
    ["is absolute", { location: "C:/windows" }],
    ["no file name may have", { location: "..\\outside.bin" }],
    ["no file name may have", { location: "weights.bin\0.txt" }],
    ["names memory", { location: "*/_ORT_MEM_ADDR_/*", offset: "140000000000", length: "8" }],
    ["names memory", { location: "*/_ORT_MEM_ADDR_/x" }],
    ["is no regular file", { location: "link.bin" }],
    ["is no regular file", { location: "sub" }],
    ["has 2 hard links", { location: "twice.bin" }],
    ["does not exist", { location: "nothing.bin" }],
    ["names no file", { location: "" }],
    ["has 0 locations", {}],
    ["has 0 locations", { offset: "1" }],
    ["ends at byte 80", { location: "weights.bin", offset: "64", length: "16" }],
    ["ends at byte 65", { location: "weights.bin", offset: "65" }],
    ["expected one whole number", { location: "weights.bin", offset: "-8" }],
    ["expected one whole number", { location: "weights.bin", length: "99999999999999999999" }],
    ["expected one whole number", { location: "weights.bin", length: "0x10" }],
  ];
  for (const [what, entries] of table) {
    await assert.rejects(
      checkExternalData(write(plain({ initializers: [external(entries)] }))),
      (error) => error instanceof ExternalDataError && error.message.includes(what),
      JSON.stringify(entries),
    );
  }
});

test("checkExternalData() refuses a second location behind an innocent one", async () => {
  const twice = Buffer.concat([
    external({ location: "weights.bin" }),
    messageField(13, [bytesField(1, "location"), bytesField(2, "/etc/passwd")]),
  ]);
  await assert.rejects(checkExternalData(write(plain({ initializers: [twice] }))), /has 2 locations/);
});

test("checkExternalData() takes files with several names where the caller has given them these, and nothing else more", async () => {
  const twice = write(plain({ initializers: [external({ location: "twice.bin" })] }));
  await checkExternalData(twice, { allowsHardLinks: true });
  const linked = write(plain({ initializers: [external({ location: "link.bin" })] }));
  await assert.rejects(checkExternalData(linked, { allowsHardLinks: true }), /is no regular file/);
});
