/** Parses flag values: booleans, numbers and the `name,setting=value` forms. Knows no particular flag. */
import { FlagError } from "./flag-error.ts";

const INT32_MAX = 2n ** 31n - 1n;
const INT64_MAX = BigInt(Number.MAX_SAFE_INTEGER);

export function parseBoolean(text: string): boolean {
  const lower = text.toLowerCase();
  if (["true", "on", "1"].includes(lower)) return true;
  if (["false", "off", "0"].includes(lower)) return false;
  throw new FlagError(`invalid value for bool option: ${text}`);
}

export function parseInt32(text: string): number {
  return parseWithin(text, INT32_MAX);
}

/** 64-bit in Triton; values that a JavaScript number cannot hold exactly are refused. */
export function parseInt64(text: string): number {
  return parseWithin(text, INT64_MAX);
}

/** Like Triton's atoi, ignores text after the digits: `30s` is 30. */
function parseWithin(text: string, max: bigint): number {
  const [, sign, digits] = /^\s*([+-]?)(\d+)/.exec(text) ?? [];
  if (digits === undefined) throw new FlagError(`Invalid option value. Got ${text}`);
  const value = BigInt(`${sign === "-" ? "-" : ""}${digits}`);
  if (value > max || value < -max - 1n) throw outOfBound(text);
  return Number(value);
}

export function parseFloat64(text: string): number {
  const [, number] = /^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)/.exec(text) ?? [];
  if (number === undefined) throw new FlagError(`Invalid option value. Got ${text}`);
  const value = Number(number);
  if (!Number.isFinite(value)) throw outOfBound(text);
  return value;
}

function outOfBound(text: string): FlagError {
  return new FlagError(`Provided option value is out of bound. Got ${text}`);
}

/** `<first><delimiter><second>`, both non-empty. */
export function parsePair(text: string, delimiter: string): readonly [string, string] {
  const at = text.indexOf(delimiter);
  if (at < 0) {
    throw new FlagError(
      `Cannot parse pair option due to incorrect number of inputs.--<pair option> argument requires format <first>${delimiter}<second>. Found: ${text}`,
    );
  }
  return [text.slice(0, at), text.slice(at + delimiter.length)];
}

export interface Setting {
  /** Empty: for all. */
  readonly scope: string;
  readonly key: string;
  readonly value: string;
}

/**
 * `<scope><comma><key>=<value>`, all parts present. `parts` names them for the error, e.g. "<policy
 * name>,<setting>=<value>".
 */
export function parseScopedSetting(flag: string, text: string, comma: string, parts: string): Setting {
  const afterScope = text.indexOf(comma);
  const equals = text.indexOf("=", afterScope + 1);
  const setting = {
    scope: text.slice(0, Math.max(afterScope, 0)),
    key: text.slice(afterScope + 1, Math.max(equals, 0)),
    value: text.slice(equals + 1),
  };
  const isWhole = afterScope > 0 && equals > 0 && setting.key !== "" && setting.value !== "";
  if (!isWhole) throw new FlagError(`--${flag} option format is '${parts}'. Got ${text}`);
  return setting;
}

/** `<key>=<value>` for all, or `<scope>,<key>=<value>` for one. `what` names the scope: "backend name". */
export function parseOptionalScope(flag: string, text: string, what: string, emptyScope: string): Setting {
  const comma = text.indexOf(",");
  const equals = text.indexOf("=", comma + 1);
  if (comma === 0) {
    throw new FlagError(
      `No ${emptyScope} specified. --${flag} option format is <${what}>,<setting>=<value> or <setting>=<value>. Got ${text}`,
    );
  }
  const key = text.slice(comma + 1, Math.max(equals, 0));
  const value = text.slice(equals + 1);
  if (equals < 0 || key === "" || value === "") {
    throw new FlagError(`--${flag} option format is '<${what}>,<setting>=<value>'. Got ${text}`);
  }
  return { scope: comma > 0 ? text.slice(0, comma) : "", key, value };
}
