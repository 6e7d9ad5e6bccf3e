/** The configuration that a repository agent sees: that of the folder, as it was written. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { modelConfigJson } from "../../config/model/model-config-json.ts";

const CONFIG = "config.pbtxt";

/** "": the folder has no configuration that can be read. The load says why. */
export function configJsonOf(folder: string): string {
  try {
    return modelConfigJson(parseModelConfigText(readFileSync(join(folder, CONFIG), "utf8"), CONFIG));
  } catch {
    return "";
  }
}
