/** The loader of TypeScript for programs and threads that tests start from sources: Node's tests have it themselves. */

/** For `import()` in a thread. */
export const SOURCE_LOADER: string = new URL("../../tools/loader/register.mjs", import.meta.url).href;
/** Flags of Node.js for a program; what `--expose-internals` is for is told by the loader. */
export const LOADER_FLAGS: readonly string[] = ["--expose-internals", "--import", SOURCE_LOADER];

/** A program of a worker thread: the loader, then the module. */
export function threadProgram(module: URL): URL {
  const text = `await import(${JSON.stringify(SOURCE_LOADER)}); await import(${JSON.stringify(module.href)});`;
  return new URL(`data:text/javascript,${encodeURIComponent(text)}`);
}
