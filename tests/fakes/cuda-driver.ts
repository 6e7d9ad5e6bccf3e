/**
 * A driver without a GPU, as a shared library: one device whose shared memory is objects of /dev/shm. A handle is the
 * object's name. Functions that no test needs answer CUDA_ERROR_NOT_SUPPORTED. Needs a C compiler.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CUDA_SIGNATURES, SHARED_HANDLE_BYTES } from "../../server/src/native/cuda/functions.ts";

export const hasCompiler: boolean = spawnSync("cc", ["--version"]).status === 0;

/** Functions that do something, by symbol. */
const WRITTEN: Readonly<Record<string, string>> = {
  cuInit: "(unsigned flags) { return flags; }",
  cuDriverGetVersion: "(int *version) { *version = 13000; return 0; }",
  cuDeviceGetCount: "(int *count) { *count = 1; return 0; }",
  cuDeviceGet: "(int *device, int ordinal) { *device = ordinal; return 0; }",
  cuDeviceGetName: '(char *name, int length, int device) { snprintf(name, length, "Fake %d", device); return 0; }',
  cuDeviceGetAttribute: "(int *value, int which, int device) { *value = which == 75 ? 9 : device; return 0; }",
  cuDeviceTotalMem_v2: "(size_t *bytes, int device) { *bytes = 1 << 30; return device; }",
  cuDevicePrimaryCtxRetain: "(size_t *context, int device) { *context = 77 + device; return 0; }",
  cuCtxSetCurrent: "(size_t context) { return current = context, 0; }",
  cuStreamCreate: "(size_t *stream, unsigned flags) { *stream = 88 + flags; return 0; }",
  cuStreamSynchronize: "(size_t stream) { return stream == 89 ? 0 : 400; }",
  cuIpcOpenMemHandle_v2: `(char **pointer, Handle handle, unsigned flags) {
    if (current != 77 || flags != 1 || handle.name[${SHARED_HANDLE_BYTES - 1}] != 0) return 1;
    int file = shm_open(handle.name, O_RDWR, 0);
    struct stat stat;
    if (file < 0) return 1;
    fstat(file, &stat);
    *pointer = mmap(0, stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    for (int i = 0; i < SLOTS; i++) if (!slots[i].start) { slots[i].start = *pointer; slots[i].size = stat.st_size; return 0; }
    return 2;
  }`,
  cuIpcCloseMemHandle: `(char *pointer) {
    for (int i = 0; i < SLOTS; i++) if (slots[i].start == pointer) { slots[i].start = 0; return munmap(pointer, slots[i].size); }
    return 1;
  }`,
  cuMemGetAddressRange_v2: `(char **base, size_t *size, char *pointer) {
    for (int i = 0; i < SLOTS; i++) if (slots[i].start == pointer) { *base = pointer; *size = slots[i].size; return 0; }
    return 1;
  }`,
  cuMemcpyHtoDAsync_v2:
    "(char *to, const char *from, size_t bytes, size_t stream) { memcpy(to, from, bytes); return stream == 89 ? 0 : 400; }",
  cuMemcpyDtoHAsync_v2:
    "(char *to, const char *from, size_t bytes, size_t stream) { memcpy(to, from, bytes); return stream == 89 ? 0 : 400; }",
  cuGetErrorName:
    '(int status, const char **name) { *name = status == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR"; return 0; }',
  cuGetErrorString: '(int status, const char **text) { *text = status == 1 ? "invalid argument" : "other"; return 0; }',
};

const HEAD = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define SLOTS 64
typedef struct { char name[${SHARED_HANDLE_BYTES}]; } Handle;
static struct { char *start; size_t size; } slots[SLOTS];
static size_t current;
`;

export class FakeCudaDriver implements Disposable {
  /** For `NEREID_CUDA_LIBRARIES`. */
  readonly folder: string;

  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "nereid-fake-cuda-"));
    const functions = Object.values(CUDA_SIGNATURES).map(
      ([symbol]) => `int ${symbol}${WRITTEN[symbol] ?? "(void) { return 801; }"}`,
    );
    const source = join(this.folder, "cuda.c");
    writeFileSync(source, `${HEAD}${functions.join("\n")}\n`);
    execFileSync("cc", ["-shared", "-fPIC", "-o", join(this.folder, "libcuda.so.1"), source]);
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The handle of an object of /dev/shm. */
export function fakeHandle(name: string): Uint8Array {
  const handle = new Uint8Array(SHARED_HANDLE_BYTES);
  new TextEncoder().encodeInto(`/${name}`, handle);
  return handle;
}
