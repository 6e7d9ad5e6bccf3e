/** Why cases of upstream's suites do not pass here, by suite, name and message. The first row that fits is the reason. */
import type { CaseResult } from "./results.ts";

interface KnownReason {
  readonly suite?: RegExp;
  readonly name?: RegExp;
  /** Fits the message of the failure. */
  readonly message?: RegExp;
  readonly reason: string;
}

const KNOWN: readonly KnownReason[] = [
  { message: /cuda|CudaSharedMemory/i, reason: "needs a GPU" },
  { message: /memory of a GPU/, reason: "needs a GPU: growable state memory is memory of a GPU" },
  { message: /No module named 'torch'|torch/, reason: "needs PyTorch" },
  {
    name: /test\.sh|exit status/,
    suite: /./,
    message: /^\d+$/,
    reason: "the script ends with an error when a case fails",
  },
];

/** Undefined for a failure that nobody has looked at. */
export function knownReason(result: CaseResult): string | undefined {
  return KNOWN.find(
    ({ suite = /./, name = /./, message = /(?:)/ }) =>
      suite.test(result.suite) && name.test(result.name) && message.test(result.reason),
  )?.reason;
}
