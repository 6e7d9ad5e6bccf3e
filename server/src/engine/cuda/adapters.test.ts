import assert from "node:assert/strict";
import { test } from "node:test";
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import { CudaAdapters } from "./adapters.ts";

const TARGETS = {
  numLayers: 1,
  expertLayers: new Set<number>(),
  prefixes: [],
  layer: "",
  modules: new Map(),
  moduleIds: new Map(),
};
const ADAPTER = {
  changes: [
    {
      layer: 0,
      target: { linear: "qkv", column: 0, inputs: 8, outputs: 8 },
      rank: 8,
      a: new Float32Array(64).fill(1),
      b: new Float32Array(64).fill(2),
    },
  ],
} as const;

/** A device that knows what of its memory is open, and says when something else is used. */
class WatchedDevice {
  readonly stream = {
    synchronize: (): void => undefined,
    copyToDevice: (to: bigint, from: bigint): void => {
      const isThere = [...this.#open].some((address) => to >= address && to < address + 4096n);
      if (!isThere || !this.#open.has(from)) this.faults.push(`a copy from ${from} to ${to}`);
    },
  };
  readonly faults: string[] = [];
  readonly #open = new Set<bigint>();
  #next = 1n;

  get numOpen(): number {
    return this.#open.size;
  }

  allocate(): object {
    return this.#take();
  }

  pin(numBytes: number): object {
    return { ...this.#take(), bytes: new Uint8Array(numBytes) };
  }

  /** Passed some turns of the event loop later, as on a device. */
  event(): object {
    let isOpen = true;
    const passed = async (): Promise<void> => {
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (!isOpen) this.faults.push("a look at an event that is closed");
    };
    return { record: () => undefined, passed, close: () => (isOpen = false) };
  }

  #take(): { readonly address: bigint; close(): void } {
    const address = 4096n * this.#next++;
    this.#open.add(address);
    return { address, close: () => void this.#open.delete(address) };
  }
}

function watched(): { readonly device: WatchedDevice; readonly adapters: CudaAdapters } {
  const device = new WatchedDevice();
  return { device, adapters: new CudaAdapters(device as unknown as CudaDevice, TARGETS, "f32", 1) };
}

test("close() frees what load() has placed", async () => {
  const { device, adapters } = watched();
  assert.equal(await adapters.load(ADAPTER), 1);
  assert.equal(adapters.loaded.size, 1);
  await adapters.close();
  assert.deepEqual([device.numOpen, device.faults], [0, []]);
});

for (const numTurns of [0, 1, 2, 3]) {
  test(`close() ends a load that has come ${numTurns} turns far before it frees what that writes to`, async () => {
    const { device, adapters } = watched();
    const loading = adapters.load(ADAPTER);
    const refused = assert.rejects(loading, /the step runner is closed/);
    for (let i = 0; i < numTurns; i++) await new Promise<void>((resolve) => setImmediate(resolve));
    await adapters.close();
    await refused;
    await assert.rejects(adapters.load(ADAPTER), /the step runner is closed/);
    assert.deepEqual([device.numOpen, device.faults], [0, []]);
  });
}
