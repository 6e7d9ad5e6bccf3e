/** A finding about a model repository: location, problem, fix. */

/** `error`: a model will not load. `warning`: it loads, but probably not as intended. `note`: useful to know. */
export type Severity = "error" | "warning" | "note";

export interface Finding {
  readonly severity: Severity;
  /** Empty for findings about the repository. */
  readonly model: string;
  readonly file: string;
  /** From 1; undefined when no line is responsible. */
  readonly line: number | undefined;
  readonly problem: string;
  /** The fix, as a sentence. */
  readonly fix: string;
}

/** In compiler format, for editors. Names the model when the path does not. */
export function findingText({ severity, model, file, line, problem, fix }: Finding): string {
  const place = line === undefined ? file : `${file}:${line}`;
  const who = model === "" || file.split("/").includes(model) ? "" : `model '${model}': `;
  return `${place}: ${severity}: ${who}${problem}\n    fix: ${fix}`;
}
