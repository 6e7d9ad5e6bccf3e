/**
 * Shapes of inputs in trtexec's syntax, `input_ids:1x16,attention_mask:1x16`, and whether a model accepts them. Pure.
 */

import { ToolError } from "@nereid/server/files/tool-error";
import type { ValueInfo } from "@nereid/server/native/onnxruntime/info";
import type { Shapes } from "./model-inputs.ts";

/** Optimisation profile of a saved model. */
export interface OptimizationProfile {
  readonly min: Shapes;
  readonly opt: Shapes;
  readonly max: Shapes;
}

const MAX_SIZE = 2 ** 31 - 1;

/** Names may contain colons; quotes around them are removed. @throws ToolError naming `flag` */
export function parseShapes(flag: string, text: string | undefined): Shapes {
  const shapes = new Map<string, readonly number[]>();
  for (const part of (text ?? "").split(",").filter((each) => each !== "")) {
    const [, quoted = "", sizes = ""] = /^(.+):([\dx*]+|scalar)$/.exec(part.trim()) ?? [];
    const name = quoted.replace(/^(['"])(.*)\1$/, "$2");
    const dims = sizes === "scalar" ? [] : sizes.split(/[x*]/).map((size) => (size === "" ? Number.NaN : Number(size)));
    if (name === "" || !dims.every((size) => Number.isSafeInteger(size) && size <= MAX_SIZE)) {
      throw new ToolError(`${flag}: expected name:1x2x3,…, got '${part}'`);
    }
    if (shapes.has(name)) throw new ToolError(`${flag}: '${name}' is given twice`);
    shapes.set(name, dims);
  }
  return shapes;
}

/** @throws ToolError with the first mismatching name, rank or size */
export function expectShapes(flag: string, shapes: Shapes, inputs: readonly ValueInfo[]): void {
  const byName = new Map(inputs.map((value) => [value.name, value]));
  for (const [name, shape] of shapes) {
    const value = byName.get(name);
    if (value === undefined) {
      throw new ToolError(`${flag}: the model has no input '${name}': it has ${[...byName.keys()].join(", ")}`);
    }
    const { dims } = value;
    const fits = dims.length === shape.length && dims.every((size, axis) => size < 0 || size === shape[axis]);
    if (!fits) throw new ToolError(`${flag}: '${name}' is ${shown(dims)} in the model, got ${shown(shape)}`);
  }
}

interface WrittenShapes {
  readonly min: Shapes;
  readonly opt: Shapes;
  readonly max: Shapes;
}

/**
 * Completes missing shapes from the others, like trtexec. An input without any shape gets its fixed one, with 1 for
 * dynamic sizes. @throws ToolError when a minimum exceeds a maximum
 */
export function completeProfile(written: WrittenShapes, inputs: readonly ValueInfo[]): OptimizationProfile {
  const pick = (order: readonly (keyof WrittenShapes)[]): Shapes =>
    new Map(
      inputs.map((value) => {
        const found = order.map((key) => written[key].get(value.name)).find((shape) => shape !== undefined);
        return [value.name, found ?? value.dims.map((size) => (size < 0 ? 1 : size))];
      }),
    );
  const profile = {
    min: pick(["min", "opt", "max"]),
    opt: pick(["opt", "max", "min"]),
    max: pick(["max", "opt", "min"]),
  };
  for (const { name } of inputs) expectOrder(name, profile);
  return profile;
}

function expectOrder(name: string, { min, opt, max }: OptimizationProfile): void {
  const [low = [], middle = [], high = []] = [min.get(name), opt.get(name), max.get(name)];
  const isOrdered = low.every((size, axis) => size <= (middle[axis] ?? 0) && (middle[axis] ?? 0) <= (high[axis] ?? 0));
  if (isOrdered) return;
  throw new ToolError(
    `'${name}': expected --minShapes <= --optShapes <= --maxShapes, got ${shown(low)}, ${shown(middle)}, ${shown(high)}`,
  );
}

export function shown(dims: readonly number[]): string {
  return dims.length === 0 ? "scalar" : dims.map((size) => (size < 0 ? "?" : size)).join("x");
}
