import assert from "node:assert/strict";
import { after, test } from "node:test";
import { numberToBf16 } from "../../server/src/core/bf16.ts";
import { fp8ToNumber, numberToFp8 } from "../../server/src/core/fp8.ts";
import { readKernelSource } from "../../server/src/device/cuda/kernel-source.ts";
import type { KernelArg } from "../../server/src/device/cuda/kernel-stream.ts";
import { checkHeaders, hostCompiler } from "./compile-emulation.ts";
import { EmulatedDevice } from "./emulated-device.ts";

const compiler = hostCompiler();
const skip = compiler.reason ?? false;
const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];
const { headers } = readKernelSource("elementwise/elementwise.cu");

function deviceWith(text: string, { seed = 1, arch = "sm_90a" } = {}): EmulatedDevice {
  const device = new EmulatedDevice({ compiler, arch, seed, readSource: (name) => ({ name, text, headers }) });
  after(() => device.clear());
  return device;
}

function launch(device: EmulatedDevice, args: readonly KernelArg[], numThreads = 64, sharedBytes = 0): void {
  const kernel = device.kernel({ source: "test/test.cu", name: "test", defines: {} });
  device.launch(kernel, [1, 1, 1], [numThreads, 1, 1], sharedBytes, args);
}

function kernelOf(parameters: string, body: string): string {
  return `#include "mma.cuh"\nextern __shared__ __align__(16) u8 shared[];\nextern "C" __global__ void test(${parameters}) {\n${body}\n}\n`;
}

/** Each thread shows its number to its mirror image. */
function mirror(barrier: string): string {
  const body = `__shared__ int all[64]; const int i = threadIdx.x; all[i] = i; ${barrier} out[i] = all[63 - i];`;
  return kernelOf("int* out", body);
}

async function runMirror(barrier: string, seed: number): Promise<Int32Array> {
  const device = deviceWith(mirror(barrier), { seed });
  const out = new Int32Array(64);
  const pointer = device.allocate(out.byteLength);
  launch(device, [{ ptr: pointer }]);
  await device.download(pointer, out);
  return out;
}

test("the headers of the emulation compile without a warning", { skip }, () => {
  assert.equal(checkHeaders(), "");
});

test("launch() gives the same with a barrier in every order, and shows that one is missing", { skip }, async () => {
  const wanted = Int32Array.from({ length: 64 }, (_, i) => 63 - i);
  for (const seed of SEEDS) assert.deepEqual(await runMirror("__syncthreads();", seed), wanted);
  for (const seed of SEEDS) assert.notDeepEqual(await runMirror("__syncwarp();", seed), wanted);
});

/** The first thread writes what all others look for, in a loop that looks at the clock. */
const LOOKING = kernelOf(
  "unsigned long long* word, int* out",
  `if (threadIdx.x == 0) { put_word(word, 42, 7); out[0] = 42; return; }
  u64 seen = 0;
  const u64 start = cycles();
  do {
    look_at_word(word, seen);
    trap_when_late(start);
  } while (!is_of_launch(seen, 7));
  out[threadIdx.x] = (int)(u32)seen;`,
).replace("mma.cuh", "tagged-words.cuh");

test("launch() lets others run while a thread looks for what they write", { skip }, async () => {
  for (const seed of SEEDS) {
    const device = deviceWith(LOOKING, { seed });
    const out = new Int32Array(64);
    const pointer = device.allocate(out.byteLength);
    launch(device, [{ ptr: device.zeros(8) }, { ptr: pointer }]);
    await device.download(pointer, out);
    assert.deepEqual(out, new Int32Array(64).fill(42));
  }
});

test("launch() ends when what a thread looks for never comes", { skip }, () => {
  const device = deviceWith(LOOKING.replace("42, 7)", "42, 6)"));
  const args = [{ ptr: device.zeros(8) }, { ptr: device.allocate(256) }];
  assert.throws(() => launch(device, args), /test: block \(0, 0, 0\), thread \d+: traps/);
});

const FAULTS: readonly (readonly [what: string, body: string, message: RegExp])[] = [
  ["far reads", "out[0] = out[600];", /test: block \(0, 0, 0\), thread \d+: touches memory at 0x/],
  ["far shared memory", "shared[4096 + threadIdx.x] = 1;", /touches memory at 0x/],
  ["copies past shared memory", "cp_async(256, out, true);", /byte 256 of shared memory is not there/],
  ["copies that are not aligned", "cp_async(8, out, true);", /at 8 of shared memory, which must be a multiple of 16/],
  [
    "a barrier that only some reach",
    "if (threadIdx.x == 0) __syncthreads(); else __syncwarp();",
    /wait for others that/,
  ],
  ["a warp that parts", "if (threadIdx.x == 0) __syncwarp(); else __any_sync(FULL_MASK, true);", /is at .* at once/],
  [
    "shuffles with who has ended",
    "if (threadIdx.x > 9) out[0] = __shfl_sync(FULL_MASK, 1, 3);",
    /asks lane 3|has ended/,
  ],
  ["traps", "__trap();", /traps/],
];

for (const [what, body, message] of FAULTS) {
  test(`launch() tells of ${what}`, { skip }, () => {
    for (const seed of SEEDS.slice(0, 2)) {
      const device = deviceWith(kernelOf("int* out", body), { seed });
      const out = device.zeros(256);
      assert.throws(() => launch(device, [{ ptr: out }], 64, 256), message);
    }
  });
}

test("launch() goes on after a kernel that failed", { skip }, async () => {
  const device = deviceWith(
    kernelOf("int* out, int isBad", "if (isBad) __trap(); __syncthreads(); out[threadIdx.x] = 7;"),
  );
  const out = device.allocate(256);
  assert.throws(() => launch(device, [{ ptr: out }, { i32: 1 }]), /traps/);
  launch(device, [{ ptr: out }, { i32: 0 }]);
  const got = new Int32Array(64);
  await device.download(out, got);
  assert.deepEqual(got, new Int32Array(64).fill(7));
});

test("clear() tells of writes behind a piece", { skip }, () => {
  const device = deviceWith(kernelOf("int* out", "out[threadIdx.x + 1] = 1;"));
  launch(device, [{ ptr: device.allocate(256) }]);
  assert.throws(() => device.clear(), /wrote outside of pieces of 256 bytes/);
});

test("launch() refuses arguments of other kinds than the parameters", { skip }, () => {
  const device = deviceWith(kernelOf("int* out, int n, float x, i64 m", ""));
  const out: KernelArg = { ptr: device.allocate(4) };
  launch(device, [out, { i32: 1 }, { f32: 1 }, { i64: 1n }]);
  assert.throws(() => launch(device, [out, { f32: 1 }, { f32: 1 }, { i64: 1n }]), /parameters pifl, .* with pffl/);
  assert.throws(() => launch(device, [out]), /parameters pifl, was launched with p$/);
});

test("a kernel with an instruction that the emulation lacks does not compile", { skip }, () => {
  const device = deviceWith(kernelOf("u32* out", 'asm("sad.u32 %0, 1, 2, 3;" : "=r"(out[0]));'));
  assert.throws(() => launch(device, [{ ptr: device.allocate(4) }]), /test\/test\.cu:4:[\s\S]*sad_u32/);
});

test("copies in the background land when they are waited for, not before", { skip }, async () => {
  const copy = "const u32 to = threadIdx.x * 16; cp_async(to, in + threadIdx.x * 4, true); cp_async_commit();";
  const device = deviceWith(
    kernelOf("const int* in, int* out", `${copy} out[0] = *(int*)shared; cp_async_wait<0>(); out[1] = *(int*)shared;`),
  );
  const [from, out] = [device.upload(Int32Array.of(5, 6, 7, 8)), device.allocate(8)];
  launch(device, [{ ptr: from }, { ptr: out }], 1, 16);
  const got = new Int32Array(2);
  await device.download(out, got);
  assert.deepEqual([...got], [-1, 5]);
});

const NUMBERS: Float32Array = Float32Array.from({ length: 4096 }, (_, i) => {
  const size = 2 ** (((i * 37) % 26) - 14) * (1 + ((i * 389) % 512) / 512);
  return i % 2 === 0 ? size : -size;
});

for (const arch of ["sm_80", "sm_90a"]) {
  test(`conversions of ${arch} to and from e4m3 and bf16 are the nearest`, { skip }, async () => {
    const body = `
      for (int i = threadIdx.x; i < 4096; i += 64) {
        codes[i] = (u8)pack_e4m3(x[i], 0.f);
        halves[i] = float_to_bf16(x[i]);
        if (i < 256) values[i] = e4m3_to_float((u8)i);
      }`;
    const device = deviceWith(kernelOf("const float* x, u8* codes, u16* halves, float* values", body), { arch });
    const codes = new Uint8Array(4096);
    const halves = new Uint16Array(4096);
    const values = new Float32Array(256);
    const outs = [codes, halves, values].map((out) => device.allocate(out.byteLength));
    launch(device, [{ ptr: device.upload(NUMBERS) }, ...outs.map((ptr) => ({ ptr }))]);
    for (const [i, out] of [codes, halves, values].entries()) await device.download(outs[i] ?? 0n, out);
    // Below sm_89 the two codes that are no numbers stand for 480: no stored code is one of them.
    const isNumber = (_: number, code: number): boolean => (code & 0x7f) !== 0x7f;
    assert.deepEqual(codes, Uint8Array.from(NUMBERS, numberToFp8));
    assert.deepEqual(halves, Uint16Array.from(NUMBERS, numberToBf16));
    const wanted = Float32Array.from({ length: 256 }, (_, code) => fp8ToNumber(code));
    assert.deepEqual(values.filter(isNumber), wanted.filter(isNumber));
  });
}
