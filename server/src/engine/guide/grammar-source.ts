/** A guide as EBNF: what the grammar library makes of it, and what masks are made from. */

export interface GrammarSource {
  readonly ebnf: string;
  /** Whether the library printed it, rather than a client. */
  readonly isPrinted: boolean;
  /** Whether it is the grammar of a JSON schema. */
  readonly isSchema: boolean;
  /** The rule that a text begins with; undefined: the last one. */
  readonly root: string | undefined;
  /** EBNF of schemas that stand for places of the grammar; each begins with its rule `root`. */
  readonly schemas: readonly string[];
  /** Texts of the grammar between two of these are numbers of schemas. */
  readonly placeMark: string;
}

/** Bytes of a source, about. */
export function sourceBytes({ ebnf, schemas }: GrammarSource): number {
  return 2 * (ebnf.length + schemas.reduce((sum, { length }) => sum + length, 0));
}
