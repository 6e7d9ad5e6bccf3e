/** Names of what is being written and not complete: whoever lists a folder of models leaves them out. */

export const PARTIAL_SUFFIX = ".nereid-partial";
export const PREVIOUS_SUFFIX = ".nereid-previous";

/** Hidden, and marked as unfinished by a tool of ours. */
export function isUnfinishedName(name: string): boolean {
  return name.startsWith(".") && (name.includes(PARTIAL_SUFFIX) || name.includes(PREVIOUS_SUFFIX));
}
