/** What an examination of a model repository finds: where it is, what is wrong, what to do. */

/** `error`: a model will not load. `warning`: it loads, and probably not as meant. `note`: worth knowing. */
export type Severity = "error" | "warning" | "note";

export interface Finding {
  readonly severity: Severity;
  /** Empty for what concerns the repository. */
  readonly model: string;
  readonly file: string;
  /** From 1; undefined when no line is to blame. */
  readonly line: number | undefined;
  readonly problem: string;
  /** What to do, as a sentence. */
  readonly fix: string;
}

/** As compilers write it, so that editors jump there. The model is named where the path does not tell it. */
export function findingText({ severity, model, file, line, problem, fix }: Finding): string {
  const place = line === undefined ? file : `${file}:${line}`;
  const who = model === "" || file.split("/").includes(model) ? "" : `model '${model}': `;
  return `${place}: ${severity}: ${who}${problem}\n    fix: ${fix}`;
}
