/** One protection taken out of the sources: a text that stands there once, its replacement, and the tests beside it that must fail. */

export type PropertyName = `P${number}`;

export interface Mutant {
  /** Property of SECURITY.md that it breaks. */
  readonly property: PropertyName;
  readonly name: string;
  /** Source file, from the root of the repository. */
  readonly file: string;
  /** Stands there once. */
  readonly from: string;
  readonly to: string;
  /** Test files, from the root; one of them fails with the replacement. */
  readonly tests: readonly string[];
}

/** The source without the protection. @throws Error when the place does not exist any more, or is not the only one */
export function applyMutant(source: string, { file, from, to, name }: Omit<Mutant, "property" | "tests">): string {
  const count = source.split(from).length - 1;
  if (count !== 1)
    throw new Error(`${file}: mutant '${name}': expected its text once, found it ${count} times: ${from}`);
  return source.replace(from, () => to);
}
