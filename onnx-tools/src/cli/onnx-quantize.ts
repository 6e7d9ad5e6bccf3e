/** `nereid onnx quantize`: dynamic 8-bit quantization of the GEMMs of an ONNX model, and its accuracy loss. */

import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { formatBytes } from "@nereid/server/files/progress-text";
import type { ErrorSum } from "../error-totals.ts";
import { quantizeOnnx } from "../quantize-onnx.ts";
import { parseShapes } from "../shapes.ts";

const FLAGS = {
  input: {
    type: "string",
    short: "i",
    value: "FILE",
    required: true,
    summary: "the ONNX model",
    aliases: ["model", "onnx"],
  },
  output: { type: "string", short: "o", value: "FILE", required: true, summary: "file for the quantized model" },
  weight_type: { type: "string", choices: ["int8", "uint8"], default: "int8", summary: "type of the weights" },
  reduce_range: {
    type: "switch",
    summary: "7 bits instead of 8: exact sums on CPUs without VNNI; uint8 has them with 8 bits, and is slower",
  },
  shapes: {
    type: "string",
    value: "NAME:2x16,…",
    summary: "shapes of the random inputs that measure the error",
  },
  load_inputs: {
    type: "string",
    many: "list",
    value: "NAME:FILE.npy",
    summary: "inputs from files instead of random ones",
  },
  samples: { type: "integer", default: 4, min: 1, max: 1000, summary: "how many random inputs" },
  seed: { type: "integer", default: 0, summary: "of the random inputs" },
  per_channel: { type: "switch", hidden: true, summary: "ignored: every column has a scale" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "onnx quantize",
  description:
    "Quantizes matrix products with constant matrices (MatMul, Gemm) to 8 bits, with a scale for each column; activations are quantized by their own range in each run. Prints sizes and the error against the original.",
  flags: FLAGS,
  examples: ["nereid onnx quantize --input onnx/model.onnx --output repo/text_encoder/1/model.onnx"],
};

export async function onnxQuantizeCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, reporter, signal }) => {
    const { numMatmuls, bytesBefore, bytesAfter, errors } = await quantizeOnnx({
      input: values.input,
      output: values.output,
      type: values.weight_type,
      isReduced: values.reduce_range,
      samples: {
        files: values.load_inputs,
        shapes: parseShapes("--shapes", values.shapes),
        count: values.samples,
        seed: values.seed,
      },
      reporter,
      signal,
    });
    const sizes = `${formatBytes(bytesBefore)} -> ${formatBytes(bytesAfter)}`;
    const lines = [`Wrote ${values.output}: ${numMatmuls} matrix products quantized, ${sizes}`, ...errorLines(errors)];
    reporter.result(lines.join("\n"), {
      output: values.output,
      products: numMatmuls,
      bytes_before: bytesBefore,
      bytes_after: bytesAfter,
      errors: Object.fromEntries(errors),
    });
  });
}

export function errorLines(errors: ReadonlyMap<string, ErrorSum>): string[] {
  return [...errors].map(([name, { max, mean, meanSize, cosine }]) => {
    const [most, average, size] = [max, mean, meanSize].map((value) => value.toPrecision(3));
    return `  ${name}: error at most ${most}, mean ${average} (values ${size} on average), cosine ${cosine.toFixed(6)}`;
  });
}
