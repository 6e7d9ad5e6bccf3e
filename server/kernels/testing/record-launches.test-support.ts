/** Records the launches of GPU kernel checks, without a GPU. */
import { FakeKernelStream, type RecordedLaunch } from "../../src/device/cuda/fake-kernel-stream.ts";
import type { CudaCheck, CudaCheckContext } from "./cuda-check.ts";

class NoDevice extends Error {}

/** Up to where the check would read a result. @throws Error of the check when a launch is refused */
export async function recordLaunches(check: CudaCheck, arch: string): Promise<readonly RecordedLaunch[]> {
  const stream = new FakeKernelStream(132, arch);
  try {
    await check.run(fakeContext(stream));
  } catch (error) {
    if (error instanceof NoDevice) return stream.launches;
    throw error;
  }
  throw new Error(`${check.name} reads no result`);
}

/** Takes launches and has no results. */
function fakeContext(stream: FakeKernelStream): CudaCheckContext {
  let next = 4096n;
  const take = (numBytes: number): bigint => {
    const address = next;
    next += BigInt(Math.ceil(numBytes / 256) * 256);
    return address;
  };
  return {
    stream,
    isRecording: true,
    upload: (bytes) => take(bytes.byteLength),
    allocate: take,
    zeros: take,
    download: () => Promise.reject(new NoDevice()),
  };
}
