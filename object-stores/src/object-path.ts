/**
 * Validates object keys that become paths on disk: anybody with write access to the store chooses them. Source: CWE-22,
 * path traversal. Pure.
 */
import { ToolError } from "@nereid/server/files/tool-error";

const MAX_PATH_BYTES = 1024;
const MAX_PART_BYTES = 255;
/** A repository has thousands of files; more indicates another kind of store. */
export const MAX_OBJECTS = 200_000;
/** 1 PiB: larger values are no length. */
const MAX_OBJECT_BYTES = 2 ** 50;

/** Why a key must not become a path; undefined when it may. */
export function pathProblem(path: string): string | undefined {
  const bytes = Buffer.byteLength(path);
  if (path === "" || bytes > MAX_PATH_BYTES) return `it has ${bytes} bytes`;
  if (path.includes("\\")) return "it has a backslash";
  if ([...path].some((character) => character < " " || character === "\x7f")) return "it has a control character";
  const parts = path.split("/");
  if (parts.some((part) => part === "" || part === "." || part === "..")) return "it leaves its folder";
  if (parts.some((part) => Buffer.byteLength(part) > MAX_PART_BYTES)) return "a part of it is too long";
  return undefined;
}

/** @throws ToolError naming the store and the object */
export function expectPath(path: string, where: string): void {
  const problem = pathProblem(path);
  if (problem !== undefined) throw new ToolError(`${where} has the object ${JSON.stringify(path)}: ${problem}`);
}

/** @throws ToolError when it is no length */
export function expectLength(bytes: number, path: string, where: string): number {
  if (Number.isInteger(bytes) && bytes >= 0 && bytes <= MAX_OBJECT_BYTES) return bytes;
  throw new ToolError(`${where} gives ${JSON.stringify(path)} the length ${bytes}, expected 0 to ${MAX_OBJECT_BYTES}`);
}

/** A path cannot occur twice, nor be a file and a folder. @throws ToolError */
export function expectDistinct(paths: readonly string[], where: string): void {
  const files = new Set(paths);
  if (files.size !== paths.length) throw new ToolError(`${where} names an object twice`);
  for (const path of files) {
    for (let end = path.indexOf("/"); end !== -1; end = path.indexOf("/", end + 1)) {
      if (!files.has(path.slice(0, end))) continue;
      throw new ToolError(`${where} has ${JSON.stringify(path.slice(0, end))} as an object and as a folder of objects`);
    }
  }
}
