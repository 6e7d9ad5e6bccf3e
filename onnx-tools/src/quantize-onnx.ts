/** Quantizes an ONNX file and measures the output difference. It knows no command line. */
import { resolve } from "node:path";
import type { Tensor } from "@nereid/server/core/tensor";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import type { OnnxDocument } from "@nereid/server/formats/onnx/document";
import type { OnnxSession } from "@nereid/server/native/onnxruntime/session";
import { compareModels } from "./compare-models.ts";
import type { ErrorSum } from "./error-totals.ts";
import { inlineData } from "./inline-data.ts";
import { readOnnxFile, writeDocument } from "./model-files.ts";
import { defaultShape, fileInput, idLimits, randomInput, randomNumbers, type Shapes } from "./model-inputs.ts";
import { MAX_MODEL_BYTES, makeFile, modelBytes, weightsFor } from "./onnx-output.ts";
import { type QuantizedGraph, quantizeGraph } from "./quantize-graph.ts";
import type { MatrixOptions } from "./quantize-matrix.ts";
import { ModelOpener } from "./sessions.ts";

export interface OnnxQuantizeOptions extends MatrixOptions {
  readonly input: string;
  readonly output: string;
  readonly samples: SampleOptions;
  /** Maximum bytes of one file, beyond which weights are stored externally; default: protobuf's limit. */
  readonly maxFileBytes?: number | undefined;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface SampleOptions {
  /** `name:file.npy`; inputs without a file are random. */
  readonly files: readonly string[];
  /** Shapes of random inputs; missing ones are chosen. */
  readonly shapes: Shapes;
  readonly count: number;
  readonly seed: number;
}

export interface OnnxQuantizeSummary {
  readonly numMatmuls: number;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  /** By output. */
  readonly errors: ReadonlyMap<string, ErrorSum>;
}

export async function quantizeOnnx(options: OnnxQuantizeOptions): Promise<OnnxQuantizeSummary> {
  const { input, output, signal } = options;
  if (resolve(input) === resolve(output)) {
    throw new ToolError(`${output} is the model itself`, { fix: "Name another file as --output" });
  }
  const bytesBefore = await modelBytes(input);
  const { maxFileBytes = MAX_MODEL_BYTES } = options;
  const isLarge = bytesBefore > maxFileBytes;
  await requireFreeBytes(output, 2 * bytesBefore);
  using opener = new ModelOpener();
  let summary: OnnxQuantizeSummary | undefined;
  await makeFile(output, async (scratch) => {
    const plain = scratch();
    // Computed, transposed and external constants become inline tensors.
    const source = isLarge ? input : await inlineData(input, scratch, signal);
    await (await opener.open(source, 1, { path: plain, isLarge })).close();
    signal.throwIfAborted();
    const document = await readOnnxFile(plain);
    const { document: quantized, numMatmuls } = quantizedDocument(document, options);
    const finished = scratch();
    const place = { path: finished, dataPath: weightsFor(output), maxBytes: maxFileBytes };
    const bytesAfter = await writeDocument(quantized, place, signal);
    const errors = await measure(opener, { input, finished, document }, options);
    summary = { numMatmuls, bytesBefore, bytesAfter, errors };
    return finished;
  });
  if (summary === undefined) throw new Error("the file was made without a summary");
  return summary;
}

/** @throws ToolError when there is nothing to quantize */
export function quantizedDocument(
  document: OnnxDocument,
  { type, isReduced, reporter, signal }: Pick<OnnxQuantizeOptions, "type" | "isReduced" | "reporter" | "signal">,
): QuantizedGraph {
  const task = reporter.startTask({ task: "quantize", unit: "products" });
  try {
    const quantized = quantizeGraph(document, { type, isReduced }, (name) => {
      signal.throwIfAborted();
      task.add(1, name);
    });
    if (quantized.numMatmuls === 0) {
      throw new ToolError(
        "The model has no MatMul or Gemm with a constant matrix of float32: nothing can be quantized",
      );
    }
    return quantized;
  } finally {
    task.end();
  }
}

interface Pair {
  readonly input: string;
  readonly finished: string;
  readonly document: OnnxDocument;
}

async function measure(
  opener: ModelOpener,
  { input, finished, document }: Pair,
  { samples, signal }: OnnxQuantizeOptions,
): Promise<ReadonlyMap<string, ErrorSum>> {
  const reference = await opener.open(input, 99);
  try {
    const changed = await opener.open(finished, 99);
    try {
      return await compareModels(reference, changed, await sampleInputs(reference, document, samples), signal);
    } catch (cause) {
      if (signal.aborted || cause instanceof ToolError) throw cause;
      throw new ToolError(`The model does not run: ${cause instanceof Error ? cause.message : String(cause)}`, {
        cause,
        fix: "Give --shapes that it takes, e.g. --shapes input_ids:1x16,attention_mask:1x16",
      });
    } finally {
      await changed.close();
    }
  } finally {
    await reference.close();
  }
}

/** @throws ToolError when a file or a shape does not fit */
export async function sampleInputs(
  { info }: OnnxSession,
  document: OnnxDocument,
  { files, shapes, count, seed }: SampleOptions,
): Promise<readonly (readonly Tensor[])[]> {
  const given = new Map<string, Tensor>();
  for (const spec of files) {
    const tensor = await fileInput(spec, info.inputs);
    given.set(tensor.name, tensor);
  }
  const limits = idLimits(document);
  const random = randomNumbers(seed);
  const isFixed = info.inputs.every(({ name }) => given.has(name));
  return Array.from({ length: isFixed ? 1 : count }, () =>
    info.inputs.map((value) => {
      const { name } = value;
      return given.get(name) ?? randomInput(value, shapes.get(name) ?? defaultShape(value), limits.get(name), random);
    }),
  );
}
