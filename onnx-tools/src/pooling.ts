/** Pooling of a sentence encoder, from its own files or the user's choice (sentence-transformers, modules.json). */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import { HfFields } from "@nereid/server/formats/hf/config-fields";
import type { Pooling } from "./bert-graph.ts";

/** "auto": as modules.json and 1_Pooling/config.json say; none when they are missing. */
export type PoolingChoice = "auto" | "mean" | "cls" | "none";

const MODES = { pooling_mode_mean_tokens: "mean", pooling_mode_cls_token: "cls" } as const;
const KNOWN_PLACE = "1_Pooling";

/** @throws ToolError for an unsupported pooling */
export async function readPooling(modelDir: string, choice: PoolingChoice): Promise<Pooling | undefined> {
  if (choice === "none") return undefined;
  if (choice !== "auto") return { mode: choice, isNormalized: true };
  const path = join(modelDir, KNOWN_PLACE, "config.json");
  const json = await readJson(path);
  if (json === undefined) return undefined;
  const config = new HfFields(json, path);
  const asked = Object.entries(json as object).flatMap(([name, value]) =>
    name.startsWith("pooling_mode_") && value === true ? [name] : [],
  );
  const [name = ""] = asked;
  const mode = asked.length === 1 && name in MODES ? MODES[name as keyof typeof MODES] : undefined;
  if (mode === undefined || !config.boolean("include_prompt", true)) {
    throw new ToolError(
      `${path}: expected the mean of all tokens or the first one, got ${asked.join(" and ") || "none"}`,
      {
        fix: "Give --pooling mean, cls or none",
      },
    );
  }
  return { mode, isNormalized: await hasNormalization(join(modelDir, "modules.json")) };
}

async function hasNormalization(path: string): Promise<boolean> {
  const modules = await readJson(path);
  if (!Array.isArray(modules)) return false;
  return modules.some((one: unknown) => String(new HfFields(one, path).get("type")).endsWith("Normalize"));
}

async function readJson(path: string): Promise<unknown> {
  const text = await readFile(path, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ToolError(`${path}: expected JSON`, { cause });
  }
}
