import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openSafetensorsFile } from "@nereid/server/formats/tensors/safetensors";
import { type SafetensorsEntry, SafetensorsWriter } from "./safetensors-writer.ts";

const PLANS: readonly SafetensorsEntry[] = [
  { name: "a", dtype: "F32", shape: [2, 2] },
  { name: "b", dtype: "I8", shape: [3] },
];

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "writer-"));
});
after(() => rm(folder, { recursive: true }));

test("SafetensorsWriter writes pieces in order, and its file is read back", async () => {
  const path = join(folder, "a.safetensors");
  {
    await using writer = await SafetensorsWriter.create(path, PLANS, { format: "pt" });
    await writer.write("a", new Uint8Array(Float32Array.of(1, 2, 3).buffer));
    await writer.write("a", new Uint8Array(Float32Array.of(4).buffer));
    await writer.write("b", Uint8Array.of(7, 8, 9));
    writer.finish();
  }
  const file = await openSafetensorsFile(path);
  const [a, b] = [new Uint8Array(16), new Uint8Array(3)];
  await file.read("a", a);
  await file.read("b", b);
  await file.close();
  assert.deepEqual([...new Float32Array(a.buffer)], [1, 2, 3, 4]);
  assert.deepEqual([...b], [7, 8, 9]);
  assert.equal((file.tensors.get("a")?.byteOffset ?? 1) % 8, 0);
});

test("SafetensorsWriter refuses tensors out of turn, too many bytes, and an end that comes early", async () => {
  await using writer = await SafetensorsWriter.create(join(folder, "b.safetensors"), PLANS);
  await assert.rejects(writer.write("b", new Uint8Array(3)), /"b": 3 bytes came where a was expected/);
  await assert.rejects(writer.write("a", new Uint8Array(17)), /"a": 17 bytes came where a was expected/);
  await writer.write("a", new Uint8Array(16));
  assert.throws(() => writer.finish(), /"b" was not written whole/);
});
