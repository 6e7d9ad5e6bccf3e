/**
 * The flags of a command as a table, and what stands on the command line as typed values. Takes what argparse takes: `--x y`,
 * `--x=y`, short forms, `_` and `-` alike, beginnings of names that fit one flag only. Knows no command; help is made elsewhere.
 */
import { nearestName } from "../config/suggest.ts";

export interface Flag {
  readonly type: "string" | "integer" | "number" | "switch";
  readonly summary: string;
  /** One letter. */
  readonly short?: string;
  /** Other names for the same flag. */
  readonly aliases?: readonly string[];
  /** Name of the value in help. */
  readonly value?: string;
  /** The only texts allowed. */
  readonly choices?: readonly string[];
  /** `repeated`: each occurrence adds one value. `list`: an occurrence takes all values up to the next flag. */
  readonly many?: "repeated" | "list";
  readonly default?: string | number;
  readonly required?: boolean;
  readonly min?: number;
  readonly max?: number;
  /** Heading in help under which the flag stands. */
  readonly group?: string;
  /** Taken for command lines written for another tool. Help does not list it. */
  readonly hidden?: boolean;
  /** A command line that gives it is told so. */
  readonly hasNoEffect?: boolean;
}

export type FlagTable = Readonly<Record<string, Flag>>;

export interface Positional {
  readonly name: string;
  readonly summary: string;
  readonly optional?: boolean;
  /** The last one only: takes all that is left. */
  readonly many?: boolean;
}

export interface CommandSyntax<T extends FlagTable> {
  /** As typed: "download". */
  readonly command: string;
  /** Purpose of the command, in a sentence or two. */
  readonly description: string;
  readonly flags: T;
  readonly positionals?: readonly Positional[];
  /** Flags that ask for something that is not here, with the way around. */
  readonly refused?: ReadonlyMap<string, string>;
  /** Command lines that work, shown by help. */
  readonly examples?: readonly string[];
}

type OneValue<F extends Flag> = F["type"] extends "switch"
  ? boolean
  : F["type"] extends "integer" | "number"
    ? number
    : F["choices"] extends readonly (infer C)[]
      ? C
      : string;

type FlagValue<F extends Flag> = F extends { readonly many: "repeated" | "list" }
  ? readonly OneValue<F>[]
  : F extends { readonly type: "switch" } | { readonly required: true } | { readonly default: string | number }
    ? OneValue<F>
    : OneValue<F> | undefined;

/** Switches are false and lists empty when not given. */
export type FlagValues<T extends FlagTable> = { readonly [K in keyof T]: FlagValue<T[K]> };

export interface Arguments<T extends FlagTable> {
  readonly values: FlagValues<T>;
  readonly positionals: readonly string[];
  /** Names of the flags that stood on the command line. */
  readonly given: ReadonlySet<keyof T & string>;
}

/** The command line is wrong; the message says where and what would be right. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "UsageError";
  }
}

/** @throws UsageError */
export function parseArguments<const T extends FlagTable>(
  syntax: CommandSyntax<T>,
  argv: readonly string[],
): Arguments<T> {
  const names = namesOf(syntax.flags);
  const found = new Map<string, (string | number | boolean)[]>();
  const positionals: string[] = [];
  for (let index = 0; index < argv.length; ) {
    const argument = argv[index++] ?? "";
    if (argument === "--") {
      positionals.push(...argv.slice(index));
      break;
    }
    if (!looksLikeFlag(argument)) {
      positionals.push(argument);
      continue;
    }
    const { name, typed, inline } = resolveFlag(argument, syntax.flags, names);
    const flag = flagOf(syntax.flags, name);
    const texts = inline === undefined ? followingValues(flag, argv, index) : [inline];
    if (inline === undefined) index += texts.length;
    const before = flag.many === "repeated" ? (found.get(name) ?? []) : []; // else the last occurrence wins
    found.set(name, [...before, ...valuesOf(flag, typed, texts)]);
  }
  expectPositionals(syntax.positionals ?? [], positionals);
  return { values: complete(syntax.flags, found) as FlagValues<T>, positionals, given: new Set(found.keys()) };
}

export function longName(name: string): string {
  return `--${name}`;
}

/** `--max_beam_width`, `--max-beam-width` and `max_beam_width` are one name. */
function canonical(name: string): string {
  return name.replaceAll("_", "-");
}

function namesOf(flags: FlagTable): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const [name, { aliases = [] }] of Object.entries(flags)) {
    for (const each of [name, ...aliases]) names.set(canonical(each), name);
  }
  return names;
}

function flagOf(flags: FlagTable, name: string): Flag {
  const flag = flags[name];
  if (flag === undefined) throw new UsageError(`there is no flag ${longName(name)}`);
  return flag;
}

/** `-1` and `-.5` are values: no table has a digit as a short form. */
function looksLikeFlag(argument: string): boolean {
  return argument.length > 1 && argument.startsWith("-") && !/^-\.?\d/.test(argument);
}

interface ResolvedFlag {
  readonly name: string;
  /** As the user wrote it. */
  readonly typed: string;
  readonly inline: string | undefined;
}

function resolveFlag(argument: string, flags: FlagTable, names: ReadonlyMap<string, string>): ResolvedFlag {
  if (!argument.startsWith("--")) return resolveShort(argument, flags);
  const equals = argument.indexOf("=");
  const typed = equals === -1 ? argument : argument.slice(0, equals);
  const inline = equals === -1 ? undefined : argument.slice(equals + 1);
  const wanted = canonical(typed.slice(2));
  const exact = names.get(wanted);
  if (exact !== undefined) return { name: exact, typed, inline };
  const fitting = [...names].filter(([each]) => wanted !== "" && each.startsWith(wanted));
  const [only, ...others] = new Set(fitting.map(([, name]) => name));
  if (only !== undefined && others.length === 0) return { name: only, typed, inline };
  if (only !== undefined) {
    throw new UsageError(`${typed} could be ${fitting.map(([each]) => longName(each)).join(" or ")}: write more of it`);
  }
  const nearest = nearestName(wanted, names.keys());
  throw new UsageError(
    `there is no flag ${typed}${nearest === undefined ? "" : `; did you mean ${longName(nearest)}?`}`,
  );
}

/** `-i`, `-i value` or `-ivalue`; where a flag has two letters, `-sq value`. */
function resolveShort(argument: string, flags: FlagTable): ResolvedFlag {
  const whole = Object.entries(flags).find(([, { short = "" }]) => short.length > 1 && argument === `-${short}`);
  if (whole !== undefined) return { name: whole[0], typed: argument, inline: undefined };
  const typed = argument.slice(0, 2);
  const found = Object.entries(flags).find(([, { short }]) => short === typed[1]);
  if (found === undefined) throw new UsageError(`there is no flag ${argument}`);
  const rest = argument.slice(2).replace(/^=/, "");
  if (rest !== "" && found[1].type === "switch") throw new UsageError(`${typed} takes no value, got '${rest}'`);
  return { name: found[0], typed, inline: rest === "" ? undefined : rest };
}

function followingValues(flag: Flag, argv: readonly string[], index: number): string[] {
  if (flag.type === "switch") return [];
  const texts: string[] = [];
  while (index + texts.length < argv.length && (flag.many === "list" || texts.length === 0)) {
    const next = argv[index + texts.length] ?? "";
    if (looksLikeFlag(next)) break;
    texts.push(next);
  }
  return texts;
}

function valuesOf(flag: Flag, typed: string, texts: readonly string[]): (string | number | boolean)[] {
  if (flag.type === "switch") return [texts.length === 0 ? true : booleanOf(typed, texts[0] ?? "")];
  if (texts.length === 0) {
    throw new UsageError(`${typed} needs a value; one that begins with '-' is written ${typed}=-…`);
  }
  return texts.map((text) => typedValue(flag, typed, text));
}

function typedValue(flag: Flag, typed: string, text: string): string | number {
  if (flag.type === "integer" || flag.type === "number") return numberOf(flag, typed, text);
  if (flag.choices !== undefined && !flag.choices.includes(text)) {
    const nearest = nearestName(text, flag.choices);
    const hint = nearest === undefined ? "" : `; did you mean '${nearest}'?`;
    throw new UsageError(`${typed} is one of ${flag.choices.join(", ")}, got '${text}'${hint}`);
  }
  return text;
}

function numberOf(
  { type, min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY }: Flag,
  typed: string,
  text: string,
): number {
  const value = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
  const isRight = type === "integer" ? Number.isSafeInteger(value) : Number.isFinite(value);
  if (!isRight) throw new UsageError(`${typed} is ${type === "integer" ? "an integer" : "a number"}, got '${text}'`);
  if (value < min) throw new UsageError(`${typed} is at least ${min}, got ${text}`);
  if (value > max) throw new UsageError(`${typed} is at most ${max}, got ${text}`);
  return value;
}

function booleanOf(typed: string, text: string): boolean {
  if (/^(true|1|yes|on)$/i.test(text)) return true;
  if (/^(false|0|no|off)$/i.test(text)) return false;
  throw new UsageError(`${typed} is true or false, got '${text}'`);
}

function expectPositionals(expected: readonly Positional[], found: readonly string[]): void {
  const missing = expected.find(({ optional }, index) => optional !== true && index >= found.length);
  if (missing !== undefined) throw new UsageError(`<${missing.name}> is missing: ${missing.summary}`);
  if (expected.at(-1)?.many === true || found.length <= expected.length) return;
  throw new UsageError(`'${found[expected.length]}' is one argument too many`);
}

function complete(
  flags: FlagTable,
  found: ReadonlyMap<string, readonly (string | number | boolean)[]>,
): Record<string, unknown> {
  const values: Record<string, unknown> = Object.create(null);
  for (const [name, flag] of Object.entries(flags)) {
    const given = found.get(name);
    if (flag.required === true && given === undefined)
      throw new UsageError(`${longName(name)} is missing: ${flag.summary}`);
    if (flag.many !== undefined) values[name] = given ?? (flag.default === undefined ? [] : [flag.default]);
    else values[name] = given?.[0] ?? flag.default ?? (flag.type === "switch" ? false : undefined);
  }
  return values;
}
