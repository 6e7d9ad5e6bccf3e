/** The parts of a grammar as they are written: the result of reading EBNF, before names are resolved. */

/** Code points, both included; sorted, apart from each other. */
export type CodePointRange = readonly [first: number, last: number];

export type Syntax =
  /** UTF-8. */
  | { readonly kind: "text"; readonly bytes: readonly number[] }
  /** One character. `texts`: others written as several; none begins with another. */
  | {
      readonly kind: "class";
      readonly ranges: readonly CodePointRange[];
      readonly texts?: readonly (readonly number[])[];
    }
  | { readonly kind: "name"; readonly name: string }
  /** An expression from outside of the text, by its number. */
  | { readonly kind: "place"; readonly index: number }
  | { readonly kind: "sequence"; readonly parts: readonly Syntax[] }
  | { readonly kind: "choice"; readonly options: readonly Syntax[] }
  /** `max` may be infinite. */
  | { readonly kind: "repeat"; readonly part: Syntax; readonly min: number; readonly max: number }
  | DispatchSyntax;

/** Any text up to a trigger, from where the rule of the trigger holds. xgrammar's `TagDispatch`. */
export interface DispatchSyntax {
  readonly kind: "dispatch";
  readonly tags: readonly { readonly trigger: readonly number[]; readonly name: string }[];
  /** Texts that end it. */
  readonly stops: readonly (readonly number[])[];
  /** Whether it may end anywhere in free text. */
  readonly mayEndAnywhere: boolean;
  /** Whether free text goes on behind a tag. */
  readonly loops: boolean;
}

/** Rules by name, in their order. */
export type Rules = ReadonlyMap<string, Syntax>;

export const EMPTY_TEXT: Syntax = { kind: "text", bytes: [] };

/** Names that the expression refers to. */
export function namesIn(syntax: Syntax): readonly string[] {
  switch (syntax.kind) {
    case "name":
      return [syntax.name];
    case "sequence":
      return syntax.parts.flatMap(namesIn);
    case "choice":
      return syntax.options.flatMap(namesIn);
    case "repeat":
      return namesIn(syntax.part);
    case "dispatch":
      return syntax.tags.map(({ name }) => name);
    default:
      return [];
  }
}
