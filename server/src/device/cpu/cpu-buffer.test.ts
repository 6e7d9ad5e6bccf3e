import assert from "node:assert/strict";
import { after, test } from "node:test";
import { CpuBuffer } from "./cpu-buffer.ts";
import { CpuDevice } from "./cpu-device.ts";
import type { CpuTensor } from "./cpu-tensor.ts";

const device = new CpuDevice({ numThreads: 1 });
after(() => device.close());

function bufferOf(shape: readonly [number, number]): { buffer: CpuBuffer; tensor: CpuTensor } {
  const buffer = new CpuBuffer(device, [{ type: "f32", shape }]);
  const [tensor] = buffer.tensors;
  assert.ok(tensor);
  return { buffer, tensor };
}

test("read() gives what write() stored, at any offset", () => {
  const { buffer, tensor } = bufferOf([3, 4]);
  buffer.write(
    tensor,
    Float32Array.from({ length: 12 }, (_, i) => i),
  );
  buffer.write(tensor, Float32Array.of(70, 80), 7 * 4);
  const row = new Float32Array(4);
  buffer.read(tensor, row, 6 * 4);
  assert.deepEqual(row, Float32Array.of(6, 70, 80, 9));
  buffer.close();
});

test("write() and read() refuse bytes outside the tensor", () => {
  const { buffer, tensor } = bufferOf([2, 2]);
  assert.throws(() => buffer.write(tensor, new Float32Array(5)), /bytes 0 to 20 lie outside a tensor of 16 bytes/);
  assert.throws(() => buffer.read(tensor, new Float32Array(1), 16), /outside/);
  assert.throws(() => buffer.read(tensor, new Float32Array(1), -4), /outside/);
  buffer.close();
});

test("CpuBuffer refuses memory that the machine does not have", () => {
  const shape = [2 ** 31, 2 ** 20] as const;
  assert.throws(() => new CpuBuffer(device, [{ type: "f32", shape }]), /could not reserve 9007199254740992 bytes/);
});

test("CpuBuffer refuses sizes that are not above zero", () => {
  assert.throws(
    () => new CpuBuffer(device, [{ type: "f32", shape: [0, 4] }]),
    /expected sizes above zero, got \[0, 4\]/,
  );
});

test("close() may be called twice, and a closed buffer is not read", () => {
  const { buffer, tensor } = bufferOf([1, 4]);
  buffer.close();
  buffer.close();
  assert.throws(() => buffer.read(tensor, new Float32Array(4)), /the buffer is closed/);
});
