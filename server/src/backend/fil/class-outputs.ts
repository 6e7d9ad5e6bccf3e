/**
 * From the values of a tree model to those that the configuration asks for. Pure. Source:
 * triton-inference-server/fil_backend, tl_model.h, `TreeliteModel::predict`.
 */

export interface OutputRule {
  readonly isClassifier: boolean;
  readonly predictsScores: boolean;
  readonly threshold: number;
  /** Values of a row, from the model. */
  readonly numOutputs: number;
  /** Values of a row, in the answer. */
  readonly width: number;
}

/** Widths of a row that a configuration may ask for. */
export function allowedWidths({
  isClassifier,
  predictsScores,
  numOutputs,
}: Omit<OutputRule, "width">): readonly number[] {
  if (!isClassifier) return [numOutputs];
  if (!predictsScores) return [1];
  return numOutputs === 1 ? [1, 2] : [numOutputs];
}

/** `values`: [rows, numOutputs]; the answer: [rows, width]. */
export function toAnswer(values: Float32Array, rule: OutputRule): Float32Array {
  const { isClassifier, predictsScores, numOutputs, width } = rule;
  if (isClassifier && !predictsScores)
    return numOutputs === 1 ? above(values, rule.threshold) : argmax(values, numOutputs);
  return isClassifier && numOutputs === 1 && width === 2 ? bothClasses(values) : values;
}

function above(values: Float32Array, threshold: number): Float32Array {
  // The threshold is an FP32 number, as the scores are.
  const limit = Math.fround(threshold);
  return values.map((value) => (value > limit ? 1 : 0));
}

/** The first of the greatest scores. */
function argmax(values: Float32Array, numClasses: number): Float32Array {
  const classes = new Float32Array(values.length / numClasses);
  for (let row = 0; row < classes.length; row++) {
    let best = 0;
    for (let index = 1; index < numClasses; index++) {
      if ((values[row * numClasses + index] ?? 0) > (values[row * numClasses + best] ?? 0)) best = index;
    }
    classes[row] = best;
  }
  return classes;
}

/** Scores of class 0 and class 1. */
function bothClasses(values: Float32Array): Float32Array {
  const scores = new Float32Array(2 * values.length);
  for (const [row, value] of values.entries()) {
    scores[2 * row] = 1 - value;
    scores[2 * row + 1] = value;
  }
  return scores;
}
