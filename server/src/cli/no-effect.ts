/** Flags that scripts pass and that mean nothing here: accepted, hidden from the help, and named in one warning. */
import { type FlagTable, longName } from "./arguments.ts";

const COMMON = { summary: "has no effect", hidden: true, hasNoEffect: true } as const;

export const NO_EFFECT: {
  readonly value: typeof COMMON & { readonly type: "string" };
  readonly toggle: typeof COMMON & { readonly type: "switch" };
} = {
  value: { ...COMMON, type: "string" },
  toggle: { ...COMMON, type: "switch" },
};

/** One line about all such flags of a command line; undefined when there is none. */
export function noEffectText(flags: FlagTable, given: ReadonlySet<string>): string | undefined {
  const names = [...given].filter((name) => flags[name]?.hasNoEffect === true).map(longName);
  if (names.length === 0) return undefined;
  return `${names.join(", ")} ${names.length === 1 ? "has" : "have"} no effect here`;
}
