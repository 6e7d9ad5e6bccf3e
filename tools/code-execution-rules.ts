/**
 * Finds what turns text or bytes into code, or a text into a command of a shell (CWE-94, CWE-78): `eval`, `new Function`, `vm`,
 * `v8.deserialize`, shells and `exec()` of child processes. Bytes from sockets must never get there.
 */

/** By what is found; comments and texts are looked at too, since a rule that is too strict is easy to follow. */
export const EXECUTION_PATTERNS: Readonly<Record<string, RegExp>> = {
  eval: /(?<![\w.$])eval\s*\(/,
  function: /\bnew\s+Function\s*\(|\bFunction\s*\(\s*["'`]/,
  vm: /from\s+["'](?:node:)?vm["']/,
  deserialize: /\bdeserialize\b[^;\n]*from\s+["'](?:node:)?v8["']|\bv8\.deserialize\s*\(/,
  shell: /\bshell\s*:\s*(?:true|["'`])/,
  exec: /\{[^}]*\bexec(?:Sync)?\b[^}]*\}\s*from\s+["'](?:node:)?child_process["']/,
};

/** Names of the patterns that a source has. */
export function executionsIn(source: string): readonly string[] {
  const found = Object.entries(EXECUTION_PATTERNS).flatMap(([name, pattern]) => (pattern.test(source) ? [name] : []));
  return found;
}
