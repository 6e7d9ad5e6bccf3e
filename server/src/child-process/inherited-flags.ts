/** Flags of this Node.js process that a child process of the same program needs. */

/** Decide how this program's files are found and compiled. */
const LOADER_FLAG = /^(--import|--require|-r|--conditions|-C|--loader|--experimental-loader)(=|$)/;
const OTHER_FLAGS =
  /^--(max-|stack-size|enable-source-maps|experimental-strip-types|expose-internals|no-warnings|disable-warning)/;

/** Leaves out the flags of a debugger, a test run or a one-liner. */
export function inheritedFlags(execArgv: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < execArgv.length; i++) {
    const flag = execArgv[i] ?? "";
    const loader = LOADER_FLAG.exec(flag);
    if (loader === null && !OTHER_FLAGS.test(flag)) continue;
    kept.push(flag);
    if (loader !== null && loader[2] !== "=") kept.push(execArgv[++i] ?? ""); // its value is the next one
  }
  return kept;
}
