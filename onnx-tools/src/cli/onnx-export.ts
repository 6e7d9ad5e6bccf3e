/** `nereid onnx export`: takes the flags of optimum-cli's exporter, as far as they fit encoders. */

import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { formatBytes } from "@nereid/server/files/progress-text";
import { exportOnnx } from "../export-onnx.ts";

const FLAGS = {
  model: {
    type: "string",
    short: "m",
    value: "DIR",
    required: true,
    summary: "Hugging Face folder with config.json and safetensors files",
    aliases: ["model_dir"],
  },
  output: {
    type: "string",
    short: "o",
    value: "DIR",
    default: "onnx",
    summary: "folder for model.onnx, or text_model.onnx and vision_model.onnx; may be a version's folder",
    aliases: ["output_dir"],
  },
  part: {
    type: "string",
    choices: ["text", "vision"],
    summary: "one encoder of CLIP, as model.onnx; both if left out",
  },
  pooling: {
    type: "string",
    choices: ["auto", "mean", "cls", "none"],
    default: "auto",
    summary: "adds sentence_embedding to BERT, of length 1; auto: as 1_Pooling and modules.json say",
  },
  attention_mask: { type: "switch", summary: "an input attention_mask for CLIP's text encoder" },
  external_data: { type: "switch", summary: "weights in a file beside the model; above 2 GiB they always are" },
  force: { type: "switch", short: "f", summary: "replace an output folder that holds other files" },
  task: { type: "string", hidden: true, summary: "ignored" },
  framework: { type: "string", hidden: true, summary: "ignored" },
  opset: { type: "integer", hidden: true, summary: "ignored" },
  device: { type: "string", hidden: true, summary: "ignored" },
  dtype: { type: "string", choices: ["fp32"], hidden: true, summary: "ignored" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "onnx export",
  description:
    "Writes an encoder as ONNX, equal to transformers: BERT and MiniLM, CLIP's text and vision encoders, the vision encoders of LLaVA and Qwen2-VL. Inputs, outputs and free sizes have the names that Hugging Face's exporter gives them. Needs no Python.",
  flags: FLAGS,
  examples: [
    "nereid onnx export --model models/all-MiniLM-L6-v2 --output repo/text_encoder/1",
    "nereid onnx export --model models/clip-vit-large-patch14 --part vision --output repo/vision_encoder/1",
  ],
};

export async function onnxExportCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, reporter, signal }) => {
    const files = await exportOnnx({
      modelDir: values.model,
      outputDir: values.output,
      part: values.part,
      pooling: values.pooling,
      hasAttentionMask: values.attention_mask,
      isExternal: values.external_data,
      isForced: values.force,
      reporter,
      signal,
    });
    const lines = files.map(
      ({ path, numBytes, inputs, outputs }) =>
        `Wrote ${path}: ${formatBytes(numBytes)}, ${inputs.join(", ")} -> ${outputs.join(", ")}`,
    );
    reporter.result(lines.join("\n"), { files: files.map(({ numBytes, ...rest }) => ({ ...rest, bytes: numBytes })) });
  });
}
