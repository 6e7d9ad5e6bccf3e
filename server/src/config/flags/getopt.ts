/**
 * Splits a command line into flags with values, by the rules of getopt_long(3): prefixes, `--flag=value` and `--flag
 * value`.
 */
import { nearestName } from "../suggest.ts";

export interface NamedFlag {
  readonly name: string;
  /** Undefined: the flag takes none. A word for each argument that it takes: "<string> <string>". */
  readonly value: string | undefined;
}

export interface GivenFlag {
  /** The full name, also when a prefix was written. */
  readonly name: string;
  /** Empty for a flag without a value. */
  readonly value: string;
}

export type ScannedArgument =
  | { readonly kind: "flag"; readonly flag: GivenFlag }
  | {
      readonly kind: "error";
      readonly message: string;
      /** The flag that was probably intended. */
      readonly nearest: string | undefined;
    };

export interface ScannedArguments {
  /** In command-line order, so that the first mistake is reported. */
  readonly items: readonly ScannedArgument[];
  readonly positionals: readonly string[];
}

export function scanArguments(argv: readonly string[], flags: readonly NamedFlag[]): ScannedArguments {
  const items: ScannedArgument[] = [];
  const positionals: string[] = [];
  for (let index = 0; index < argv.length; index++) {
    const argument = argv[index] ?? "";
    if (argument === "--") {
      positionals.push(...argv.slice(index + 1));
      break;
    }
    if (!argument.startsWith("-") || argument === "-") {
      positionals.push(argument);
      continue;
    }
    const { item, numUsed } = scanFlag(argument, argv.slice(index + 1), flags);
    items.push(item);
    index += numUsed;
  }
  return { items, positionals };
}

function scanFlag(argument: string, rest: readonly string[], flags: readonly NamedFlag[]) {
  if (!argument.startsWith("--")) return done(failure(`invalid option -- '${[...argument][1]}'`));
  const equals = argument.indexOf("=");
  const written = argument.slice(2, equals < 0 ? undefined : equals);
  const found = findFlag(written, flags);
  if (found.length === 0) {
    return done(failure(`unrecognized option '${argument}'`, nearestName(written, flags.map(nameOf))));
  }
  const [flag] = found;
  if (flag === undefined || found.length > 1) {
    const names = found.map(({ name }) => `'--${name}'`).join(" ");
    return done(failure(`option '--${written}' is ambiguous; possibilities: ${names}`));
  }
  const value = equals < 0 ? undefined : argument.slice(equals + 1);
  if (flag.value === undefined) {
    if (value !== undefined) return done(failure(`option '--${flag.name}' doesn't allow an argument`));
    return done(given(flag.name, ""));
  }
  const first = value ?? rest[0];
  if (first === undefined) return done(failure(`option '--${flag.name}' requires an argument`));
  const next = value === undefined ? rest.slice(1) : rest;
  const more = next.slice(0, numMissing(flag.value, first));
  return { item: given(flag.name, [first, ...more].join(" ")), numUsed: rest.length - next.length + more.length };
}

/** Several arguments may also come as one, with a separator between. */
function numMissing(value: string, first: string): number {
  return /[\s:]/.test(first) ? 0 : value.split(" ").length - 1;
}

/** The flag with exactly that name, or all that begin with it. */
function findFlag(written: string, flags: readonly NamedFlag[]): readonly NamedFlag[] {
  const exact = flags.find(({ name }) => name === written);
  return exact === undefined ? flags.filter(({ name }) => name.startsWith(written)) : [exact];
}

function done(item: ScannedArgument) {
  return { item, numUsed: 0 };
}

function given(name: string, value: string): ScannedArgument {
  return { kind: "flag", flag: { name, value } };
}

function failure(message: string, nearest?: string): ScannedArgument {
  return { kind: "error", message, nearest };
}

function nameOf({ name }: NamedFlag): string {
  return name;
}
