/** Load parameters that carry files (Triton's model repository extension). */

/** The path in the model's folder that `file:<path>` names. NVIDIA's clients write it with a slash in front, too. */
export function overridePath(parameter: string): string {
  return parameter.replace(/^file:\/?/, "");
}
