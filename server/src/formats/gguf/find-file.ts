/**
 * Finds the GGUF file for a path: a file, or the only one in a folder. Split files follow the naming convention of
 * ggml/docs/gguf.md. It opens none.
 */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";

const LATER_PART = /-(?!00001)\d{5}(-of-\d{5}\.gguf)$/;

/**
 * The file itself, or the only one in a folder; the first part when it is split. Undefined when a folder holds none.
 * @throws Error when the path does not exist, or a folder holds several, or parts without the first
 */
export async function findGguf(path: string): Promise<string | undefined> {
  const stats = await stat(path).catch((cause: unknown) => {
    throw new Error(`${path}: expected a folder with a model, or a GGUF file`, { cause });
  });
  if (!stats.isDirectory()) return path;
  const names = await readdir(path);
  const found = names.filter((name) => name.endsWith(".gguf") && !LATER_PART.test(name));
  const [name] = found;
  const later = names.find((each) => LATER_PART.test(each));
  if (name === undefined && later !== undefined) {
    const first = later.replace(LATER_PART, "-00001$1");
    throw new Error(`${path}: expected ${first}, the first part, beside ${later}`);
  }
  if (name === undefined) return undefined;
  if (found.length > 1) throw new Error(`${path}: expected one GGUF model, got ${found.sort().slice(0, 8).join(", ")}`);
  return join(path, name);
}
