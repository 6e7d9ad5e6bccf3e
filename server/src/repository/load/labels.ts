/** Class labels of outputs: one text file an output, one label a line. */
import { readFileSync } from "node:fs";
import type { ModelConfig } from "../../core/model-config.ts";
import { resolveContained } from "../source/path-containment.ts";

/** Output name -> labels. @throws ServerError when a label file is missing or lies outside the model's folder */
export function readLabels(config: ModelConfig, modelFolder: string): ReadonlyMap<string, readonly string[]> {
  const labels = new Map<string, readonly string[]>();
  for (const { name, label_filename } of config.output) {
    if (label_filename === "") continue;
    const text = readFileSync(resolveContained(modelFolder, label_filename), "utf8");
    const lines = text.split(/\r?\n/);
    if (lines.at(-1) === "") lines.pop();
    labels.set(name, lines);
  }
  return labels;
}
