import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openNvml } from "./nvml.ts";

/** Two GPUs; the second does not know its power, nor what it has used of it. */
const SOURCE = `
#include <stdio.h>
#include <string.h>
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
static int devices[2];
static int numberOf(void *device) { return (int)((int *)device - devices); }
int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int status) { return status == 999 ? "Unknown Error" : "Not Supported"; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { snprintf(text, length, "580.1"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = devices + index; return 0; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned length) { snprintf(text, length, "GPU-%d", numberOf(device)); return 0; }
int nvmlDeviceGetName(void *device, char *text, unsigned length) { (void)device; snprintf(text, length, "NVIDIA Test"); return 0; }
int nvmlDeviceGetUtilizationRates(void *device, Rates *rates) { rates->gpu = 40 + numberOf(device); rates->memory = 7; return 0; }
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) { (void)device; memory->total = 5ull << 30; memory->free = 1ull << 30; memory->used = 4ull << 30; return 0; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { *milliwatts = 123456; return numberOf(device) == 0 ? 0 : 3; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) { *milliwatts = 700000; return numberOf(device) == 0 ? 0 : 3; }
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) { *millijoules = 9007199254ull; return numberOf(device) == 0 ? 0 : 3; }
`;

const folder = mkdtempSync(join(tmpdir(), "nereid-nvml-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const hasCompiler = spawnSync("cc", ["--version"]).status === 0;

function compile(name: string, source: string): string {
  const path = join(folder, `${name}.so`);
  writeFileSync(join(folder, `${name}.c`), source);
  execFileSync("cc", ["-shared", "-fPIC", "-o", path, join(folder, `${name}.c`)]);
  return path;
}

test("openNvml() reads the state of each GPU", { skip: !hasCompiler && "no C compiler" }, async () => {
  const nvml = openNvml(compile("nvml", SOURCE));
  assert.equal(nvml.driverVersion, "580.1");
  assert.deepEqual(
    nvml.gpus.map(({ uuid, name }) => [uuid, name]),
    [
      ["GPU-0", "NVIDIA Test"],
      ["GPU-1", "NVIDIA Test"],
    ],
  );
  const [first, second] = await Promise.all(nvml.gpus.map((gpu) => gpu.read()));
  assert.deepEqual(first, {
    utilization: 0.4,
    totalBytes: 5 * 2 ** 30,
    usedBytes: 4 * 2 ** 30,
    powerWatts: 123.456,
    powerLimitWatts: 700,
    energyJoules: 9007199.254,
  });
  assert.deepEqual(second, {
    ...first,
    utilization: 0.41,
    powerWatts: undefined,
    powerLimitWatts: undefined,
    energyJoules: undefined,
  });
});

test("openNvml() says why NVML does not start", { skip: !hasCompiler && "no C compiler" }, () => {
  const broken = SOURCE.replace("nvmlInit_v2(void) { return 0; }", "nvmlInit_v2(void) { return 999; }");
  const path = compile("broken", broken);
  assert.throws(() => openNvml(path), /starting NVML: NVML: Unknown Error/);
});
