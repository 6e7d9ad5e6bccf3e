/**
 * Exports the encoders of a Hugging Face folder to ONNX, weight by weight (ONNX IR specification, opset 17). It knows
 * no command line.
 */
import { open } from "node:fs/promises";
import { join } from "node:path";
import { openAtomicFolder } from "@nereid/server/files/atomic-output";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import type { ProgressTask, Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { readHfConfig } from "@nereid/server/formats/hf/config";
import { HfFields, type HfFieldsOptions } from "@nereid/server/formats/hf/config-fields";
import { modelParts, type OnnxTensor, tensorDataBytes } from "@nereid/server/formats/onnx/writer";
import { type Part, partsBytes, writeParts } from "@nereid/server/formats/protobuf/writer";
import { openSafetensors, type Safetensors } from "@nereid/server/formats/tensors/safetensors";
import { buildBert } from "./bert-graph.ts";
import { buildClipText, buildClipVision, CLIP_TEXT_DEFAULTS, CLIP_VISION_DEFAULTS } from "./clip-graph.ts";
import type { BuiltGraph } from "./graph-builder.ts";
import { buildLlavaVision } from "./llava-graph.ts";
import { existingOnnxOutput, MAX_MODEL_BYTES } from "./onnx-output.ts";
import { type PoolingChoice, readPooling } from "./pooling.ts";
import { buildQwenVision, isQwenVision, QWEN_VISION_DEFAULTS } from "./qwen-vision-graph.ts";

export interface ExportOptions {
  readonly modelDir: string;
  readonly outputDir: string;
  /** For a model with two encoders; undefined: both. */
  readonly part: EncoderPart | undefined;
  readonly pooling: PoolingChoice;
  /** Adds an attention mask to CLIP's text encoder. BERT always has one. */
  readonly hasAttentionMask: boolean;
  /** External weights, even when they would fit into the model file. */
  readonly isExternal: boolean;
  readonly isForced: boolean;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

type EncoderPart = "text" | "vision";

export interface ExportedFile {
  readonly path: string;
  readonly numBytes: number;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** Opset 17 introduced LayerNormalization; all current runtimes support it. */
const OPSET = 17;
const IR_VERSION = 8;
/** Defaults for LLaVA configurations. */
const LLAVA_TEXT_DEFAULTS = { hidden_size: 4096 };

/** @throws ToolError naming what the folder lacks */
export async function exportOnnx(options: ExportOptions): Promise<readonly ExportedFile[]> {
  const { modelDir, outputDir, reporter } = options;
  const source = await openSafetensors(modelDir).catch((cause: unknown) => {
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), {
      cause,
      fix: "Name a folder with config.json and safetensors files; pytorch_model.bin is not read",
    });
  });
  try {
    const graphs = await buildGraphs(source, options).catch(asToolError);
    const drafts = graphs.map(([part, graph]) =>
      draftOf(graphs.length > 1 ? `${part}_model` : "model", graph, options),
    );
    const numBytes = drafts.reduce((sum, { parts, data }) => sum + partsBytes(parts) + partsBytes(data), 0);
    await requireFreeBytes(outputDir, numBytes);
    const existing = options.isForced ? "replace" : await existingOnnxOutput(outputDir);
    await using folder = await openAtomicFolder(outputDir, { existing });
    const task = reporter.startTask({ task: "export", unit: "bytes", total: numBytes });
    try {
      for (const draft of drafts) await writeDraft(folder.path, draft, task, options.signal);
    } finally {
      task.end();
    }
    await folder.commit();
    return drafts.map(({ name, parts, data, graph }) => ({
      path: join(outputDir, `${name}.onnx`),
      numBytes: partsBytes(parts) + partsBytes(data),
      inputs: graph.inputs.map((value) => value.name),
      outputs: graph.outputs.map((value) => value.name),
    }));
  } finally {
    await source.close();
  }
}

function asToolError(cause: unknown): never {
  if (cause instanceof ToolError || !(cause instanceof Error)) throw cause;
  throw new ToolError(cause.message, { cause });
}

async function buildGraphs(source: Safetensors, options: ExportOptions): Promise<[EncoderPart, BuiltGraph][]> {
  const { config: json, at } = await readHfConfig(options.modelDir);
  const config = new HfFields(json, at.config);
  const kind = config.get("model_type");
  if (kind === "bert") {
    expectPart(options, "text");
    return [["text", buildBert(source, config, await readPooling(options.modelDir, options.pooling))]];
  }
  if (kind === "llava" || kind === "llava_next") {
    expectPart(options, "vision");
    const section = (name: string, defaults: NonNullable<HfFieldsOptions["defaults"]>): HfFields =>
      config.section(name, { defaults }) ?? new HfFields({}, at.config, { defaults });
    const vision = section("vision_config", CLIP_VISION_DEFAULTS);
    return [["vision", buildLlavaVision(source, config, vision, section("text_config", LLAVA_TEXT_DEFAULTS))]];
  }
  if (isQwenVision(kind)) {
    expectPart(options, "vision");
    const vision = config.section("vision_config", { defaults: QWEN_VISION_DEFAULTS });
    if (vision === undefined) throw new ToolError(`${at.config}: vision_config: expected an object, got nothing`);
    return [["vision", buildQwenVision(source, kind, vision)]];
  }
  const sections = clipSections(json, config, at.config);
  if (sections === undefined) {
    throw new ToolError(
      `${at.config}: model_type: expected bert, clip, clip_text_model, clip_vision_model, llava, llava_next, qwen2_vl or qwen2_5_vl, got ${kind}`,
      {
        fix: "Export this model with Hugging Face's own tools: the server takes any ONNX file",
      },
    );
  }
  for (const part of sections.keys()) if (sections.size === 1) expectPart(options, part);
  const wanted = [...sections].filter(([part]) => options.part === undefined || options.part === part);
  return wanted.map(([part, fields]) => [
    part,
    part === "text" ? buildClipText(source, fields, options) : buildClipVision(source, fields),
  ]);
}

function expectPart({ part }: ExportOptions, only: EncoderPart): void {
  if (part === undefined || part === only) return;
  throw new ToolError(`The model has no ${part} encoder`, { fix: `Leave --part out, or give --part ${only}` });
}

/** Undefined when it is no CLIP. */
function clipSections(json: unknown, config: HfFields, at: string): ReadonlyMap<EncoderPart, HfFields> | undefined {
  const text = { defaults: CLIP_TEXT_DEFAULTS };
  const vision = { defaults: CLIP_VISION_DEFAULTS };
  const kind = config.get("model_type");
  if (kind === "clip_text_model") return new Map([["text", new HfFields(json, at, text)]]);
  if (kind === "clip_vision_model") return new Map([["vision", new HfFields(json, at, vision)]]);
  if (kind !== "clip") return undefined;
  return new Map([
    ["text", config.section("text_config", text) ?? new HfFields({}, at, text)],
    ["vision", config.section("vision_config", vision) ?? new HfFields({}, at, vision)],
  ]);
}

interface Draft {
  readonly name: string;
  readonly graph: BuiltGraph;
  /** Content of the model file. */
  readonly parts: readonly Part[];
  /** Content of the external data file; empty when there is none. */
  readonly data: readonly Part[];
}

function draftOf(name: string, graph: BuiltGraph, { isExternal }: ExportOptions): Draft {
  const draft = { irVersion: IR_VERSION, opset: OPSET, producer: "nereid", graphName: "main_graph", ...graph };
  const inline = modelParts(draft);
  if (!isExternal && partsBytes(inline) <= MAX_MODEL_BYTES) return { name, graph, parts: inline, data: [] };
  const { tensors, data } = moveOut(graph.tensors, `${name}.onnx_data`);
  return { name, graph, parts: modelParts({ ...draft, tensors }), data };
}

/** Smaller tensors stay inline, because shape inference needs them before external files are opened. */
const MIN_MOVED_BYTES = 1024;

function moveOut(all: readonly OnnxTensor[], location: string): { tensors: readonly OnnxTensor[]; data: Part[] } {
  const data: Part[] = [];
  let offset = 0;
  const tensors = all.map((tensor) => {
    const length = tensorDataBytes(tensor);
    if (length < MIN_MOVED_BYTES || "location" in tensor.data) return tensor;
    data.push(tensor.data);
    const place = { location, offset, length };
    offset += length;
    return { ...tensor, data: place };
  });
  return { tensors, data };
}

async function writeDraft(folder: string, draft: Draft, task: ProgressTask, signal: AbortSignal): Promise<void> {
  const onWritten = (numBytes: number): void => task.add(numBytes, draft.name);
  const files: [string, readonly Part[]][] = [[`${draft.name}.onnx`, draft.parts]];
  if (draft.data.length > 0) files.push([`${draft.name}.onnx_data`, draft.data]);
  for (const [name, parts] of files) {
    const file = await open(join(folder, name), "wx");
    await writeParts(file, parts, { signal, onWritten }).finally(() => file.close());
  }
}
