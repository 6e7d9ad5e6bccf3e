import assert from "node:assert/strict";
import { test } from "node:test";
import type { GpuReading, MonitoredGpu } from "../native/cuda/nvml.ts";
import { GpuWatch } from "./gpu-metrics.ts";
import { MetricRegistry } from "./metrics.ts";

const LONG_MS = 1e6;
const READING: GpuReading = {
  utilization: 0.25,
  totalBytes: 150_754_820_096,
  usedBytes: 4096,
  powerWatts: 76.5,
  powerLimitWatts: 700,
  energyJoules: 1000,
};

function pageOf(watch: GpuWatch): string {
  const registry = new MetricRegistry();
  for (const family of watch.families) registry.register(family);
  return registry.render();
}

function gpuOf(uuid: string, readings: readonly GpuReading[]): MonitoredGpu {
  let at = 0;
  return { uuid, name: "NVIDIA Test", read: async () => readings[Math.min(at++, readings.length - 1)] ?? READING };
}

test("GpuWatch shows the latest reading of each GPU under its id, energy from the start", async () => {
  using watch = new GpuWatch(
    [gpuOf("GPU-a", [READING, { ...READING, usedBytes: 8192, energyJoules: 1234.5 }]), gpuOf("GPU-b", [READING])],
    LONG_MS,
  );
  await watch.read();
  await watch.read();
  const lines = pageOf(watch).split("\n");
  for (const line of [
    "# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)",
    "# TYPE nv_gpu_utilization gauge",
    'nv_gpu_utilization{gpu_uuid="GPU-a"} 0.25',
    'nv_gpu_memory_total_bytes{gpu_uuid="GPU-b"} 150754820096',
    'nv_gpu_memory_used_bytes{gpu_uuid="GPU-a"} 8192',
    'nv_gpu_power_usage{gpu_uuid="GPU-a"} 76.5',
    'nv_gpu_power_limit{gpu_uuid="GPU-a"} 700',
    "# HELP nv_energy_consumption GPU energy consumption in joules since the Triton Server started",
    "# TYPE nv_energy_consumption counter",
    'nv_energy_consumption{gpu_uuid="GPU-a"} 234.5',
    'nv_energy_consumption{gpu_uuid="GPU-b"} 0',
  ]) {
    assert.ok(lines.includes(line), `${line} is missing in\n${lines.join("\n")}`);
  }
});

test("GpuWatch leaves out what a GPU does not know, and all of it before the first reading", async () => {
  using watch = new GpuWatch([gpuOf("GPU-a", [{ ...READING, powerWatts: undefined }])], LONG_MS);
  assert.equal(pageOf(watch).includes("gpu_uuid"), false);
  await watch.read();
  const page = pageOf(watch);
  assert.equal(page.includes("nv_gpu_power_usage{"), false);
  assert.ok(page.includes('nv_gpu_power_limit{gpu_uuid="GPU-a"} 700'));
});

test("GpuWatch asks a GPU that does not answer once only", async () => {
  let numAsked = 0;
  const gpu: MonitoredGpu = {
    uuid: "GPU-a",
    name: "NVIDIA Test",
    read: () => {
      numAsked += 1;
      return new Promise(() => undefined);
    },
  };
  using watch = new GpuWatch([gpu], LONG_MS);
  void watch.read();
  await watch.read();
  assert.equal(numAsked, 1);
});
