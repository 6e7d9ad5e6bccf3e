/**
 * Decides which test files share a process. Starting Node, the loader of TypeScript and the modules under test costs about half
 * a second of CPU a file, which is more than most unit tests take. Reads no file and starts nothing.
 */

export interface TestFile {
  /** Relative to the root of the workspace. */
  readonly path: string;
  readonly source: string;
}

/** At least one file; several run one after the other in one process. */
export type TestProcess = readonly string[];

/** Beyond these folders a test starts programs of its own, and a process for it costs little in comparison. */
const UNIT_FOLDERS = /^(tools\/|web\/app\/|[a-z-]+\/(src|kernels)\/)/;
/**
 * A file that touches something of its whole process has it to itself: hooks of the root around every test, variables of the
 * environment, flags of V8, measured memory.
 */
const OF_THE_PROCESS: readonly RegExp[] = [
  /^(beforeEach|afterEach)\(/m,
  /process\.env(\.\w+|\[[^\]]+\]) *(\?\?)?=[^=]/,
  /delete process\.env/,
  /process\.(chdir|exit|umask|memoryUsage)\(/,
  /setFlagsFromString|expose-gc/,
  // Binaryen and what is built by Emscripten answer uncaught exceptions for the whole process.
  /generate-float-kernels/,
];

export function needsOwnProcess({ path, source }: TestFile): boolean {
  return !UNIT_FOLDERS.test(path) || OF_THE_PROCESS.some((pattern) => pattern.test(source));
}

/**
 * Processes in the order in which they start: files that are alone come first, in their order, for among them are the longest.
 * Neighbours share a process, since they import the same modules.
 */
export function planTestProcesses(files: readonly TestFile[], maxFiles: number): readonly TestProcess[] {
  const alone = files.filter(needsOwnProcess).map(({ path }) => [path]);
  const shared = files.filter((file) => !needsOwnProcess(file)).map(({ path }) => path);
  const numBatches = Math.ceil(shared.length / maxFiles);
  const batches = Array.from({ length: numBatches }, (_, i) =>
    shared.slice(Math.floor((i * shared.length) / numBatches), Math.floor(((i + 1) * shared.length) / numBatches)),
  );
  return [...alone, ...batches];
}
