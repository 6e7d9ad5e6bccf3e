/** The files that platform `tensorrt_plan` is served from, and the shapes for which each was made. */
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import { PLAN_FORMAT_VERSION, type PlanContent, type PlanNote, readPlan } from "../../formats/onnx/plan-file.ts";
import type { ModelSource } from "../backend.ts";
import { findModelFile, locateModelFile } from "./model-file.ts";

const DEFAULT_FILE = "model.plan";

interface SizeRange {
  readonly min: readonly number[];
  readonly max: readonly number[];
}

/** Requests outside are refused, as an engine refuses them: what was never tried may take all memory. */
export class ShapeProfile {
  readonly #ranges: ReadonlyMap<string, SizeRange>;
  /** Shapes of all inputs. */
  readonly maxBatchSize: number;

  constructor({ min, max }: Pick<PlanNote, "min" | "max">) {
    this.#ranges = new Map(
      Object.entries(max).map(([name, sizes]) => [name, { min: min[name] ?? sizes, max: sizes }] as const),
    );
    this.maxBatchSize = Math.min(...Object.values(max).map(([batch = 1]) => batch));
  }

  /** @throws ServerError when the configuration allows batches that the model was not made for */
  expectBatchSize({ name, max_batch_size }: ModelConfig): void {
    if (max_batch_size <= this.maxBatchSize) return;
    throw invalidArgument(
      `model '${name}' has max_batch_size ${max_batch_size}, but its engine was built for at most ${this.maxBatchSize}: build it with larger --maxShapes, or lower max_batch_size`,
    );
  }

  /** @throws ServerError naming the first size that is out of its range */
  expectShapes(inputs: readonly Tensor[], instanceName: string): void {
    for (const { name, shape } of inputs) {
      const range = this.#ranges.get(name);
      if (range === undefined) continue;
      for (let axis = 0; axis < shape.length; axis++) {
        const [low = 0, high = 0, size = 0] = [range.min[axis], range.max[axis], shape[axis]];
        if (size >= low && size <= high) continue;
        throw invalidArgument(
          `request specifies invalid shape for input '${name}' for ${instanceName}. Error details: model expected the shape of dimension ${axis} to be between ${low} and ${high} but received ${size}`,
        );
      }
    }
  }
}

/** @throws ServerError naming the command that makes such a file, when it is another one */
export async function findPlan(
  source: ModelSource,
): Promise<{ readonly path: string; readonly profile: ShapeProfile }> {
  const place = await locateModelFile(source, DEFAULT_FILE);
  const content = await readPlan(place);
  if (content.kind !== "nereid" || content.note.formatVersion !== PLAN_FORMAT_VERSION) {
    throw refusal(source.name, place, content);
  }
  return { path: await findModelFile(source, DEFAULT_FILE), profile: new ShapeProfile(content.note) };
}

function refusal(name: string, path: string, content: PlanContent): ServerError {
  const fix = `build it from the ONNX model: nereid trtexec --onnx=model.onnx --saveEngine=${path}`;
  const problems: Readonly<Record<PlanContent["kind"], string>> = {
    nvidia: "is an engine of NVIDIA TensorRT, which only NVIDIA's runtime reads",
    other: "is no engine",
    nereid: "is an engine of another version of nereid",
  };
  return new ServerError("unsupported", `unable to load model '${name}', ${path} ${problems[content.kind]}; ${fix}`);
}
