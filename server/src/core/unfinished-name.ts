/** Names of unfinished files and folders, which model listings skip. */

export const PARTIAL_SUFFIX = ".nereid-partial";
export const PREVIOUS_SUFFIX = ".nereid-previous";

/** Hidden, with a suffix of our tools. */
export function isUnfinishedName(name: string): boolean {
  return name.startsWith(".") && (name.includes(PARTIAL_SUFFIX) || name.includes(PREVIOUS_SUFFIX));
}
