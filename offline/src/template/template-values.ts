/**
 * Parses `key:value,key:value` command-line lists for configuration templates. Input that fill_template.py understands
 * has the same meaning here, including backslashes; values with colons and commas work without them. Pure.
 */
import { ToolError } from "@nereid/server/files/tool-error";

export interface TemplateValues {
  /** In written order; the last value of a repeated key counts. */
  readonly values: ReadonlyMap<string, string>;
  readonly warnings: readonly string[];
}

/**
 * `isKnown` tells whether the template uses a key, which decides whether `scheme://rest` continues a value. @throws
 * ToolError when a text is no entry and continues none
 */
export function parseTemplateValues(text: string, isKnown: (key: string) => boolean): TemplateValues {
  const values = new Map<string, string>();
  const warnings: string[] = [];
  let last: string | undefined;
  for (const piece of splitEscaped(text, ",")) {
    const [key = "", ...rest] = splitEscaped(piece, ":");
    if (startsEntry(key, rest, isKnown)) {
      if (values.has(key)) warnings.push(`'${key}' is given twice: the last value counts`);
      values.set(key, rest.join(":"));
      last = key;
    } else if (last === undefined || piece === "") {
      throw noEntry(piece, text);
    } else {
      values.set(last, `${values.get(last)},${[key, ...rest].join(":")}`);
    }
  }
  return { values, warnings };
}

/** A backslash escapes the next character and is consumed: a text that is split twice needs two. */
function splitEscaped(text: string, delimiter: string): string[] {
  const parts: string[] = [];
  let part = "";
  for (let index = 0; index < text.length; index++) {
    const character = text.charAt(index);
    if (character === "\\") part += text.charAt(++index);
    else if (character === delimiter) {
      parts.push(part);
      part = "";
    } else part += character;
  }
  return [...parts, part];
}

/** `0,1` and `s3://a,s3://b` are continued values; `b:2` starts another entry, and so does any key of the template. */
function startsEntry(key: string, rest: readonly string[], isKnown: (key: string) => boolean): boolean {
  if (rest.length === 0) return false;
  if (isKnown(key)) return true;
  return /^\s*[A-Za-z_]\w*\s*$/.test(key) && rest[0]?.startsWith("//") !== true;
}

function noEntry(piece: string, text: string): ToolError {
  if (piece === "") {
    return new ToolError(`There is an empty entry in '${text}'`, { fix: "Remove the comma at its side" });
  }
  return new ToolError(`'${piece}' is no entry: expected key:value`, {
    fix: "Write entries as key:value,key:value; a comma or colon in a value may have a backslash before it",
  });
}
