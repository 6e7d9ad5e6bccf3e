/** Instance groups on GPUs become instance groups on the CPU, in the suites' files and in their models. */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

const IS_TEXT = /\.(sh|py|pbtxt|json)$|^config\.pbtxt|^expected/;
/** Model configurations, and those that L0_model_config expects. */
const IS_CONFIG = /\.pbtxt$|^expected/;

export async function substituteKinds(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !IS_TEXT.test(entry.name)) continue;
    const path = join(entry.parentPath, entry.name);
    const before = await readFile(path, "utf8");
    const after = onCpu(before, IS_CONFIG.test(entry.name));
    if (after !== before) await writeFile(path, after);
  }
}

const OF_GPUS = /\bgpus\s*:\s*(\[[\d,\s]*\]|\d+)\s*,?|\buse_growable_memory\s*:\s*true/g;

/** A command written for either kind, which now is the same twice. */
const TWICE = /(sed -i "[^"\n]*KIND_CPU[^"\n]*" \S+) && \\\n\s*\1(?!\S*\w)/g;

/** `use_growable_memory` is memory of a GPU. Triton refuses the field `gpus` beside KIND_CPU, so a configuration loses it. */
export function onCpu(text: string, isConfig: boolean): string {
  const renamed = text.replaceAll("KIND_GPU", "KIND_CPU");
  return isConfig ? renamed.replaceAll(OF_GPUS, "") : renamed.replaceAll(TWICE, "$1");
}
