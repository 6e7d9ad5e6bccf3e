/**
 * Strings of JSON schemas with a pattern, a format or a length. The grammar library writes their characters between two quotes as they are
 * (web-xgrammar 0.1.27), so that `.` lets a quote, a backslash or a line break pass. Here they become escapes.
 * Source: RFC 8259, section 7.
 */
import type { CodePointRange, Rules, Syntax } from "./syntax.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const NUM_CONTROLS = 0x20;
const SPECIAL: readonly number[] = [...Array(NUM_CONTROLS).keys(), QUOTE, BACKSLASH];

/** Rules of a schema, with escapes in its strings. */
export function withEscapes(rules: Rules): Rules {
  return new Map([...rules].map(([name, syntax]) => [name, outside(syntax)]));
}

function outside(syntax: Syntax): Syntax {
  if (syntax.kind === "choice") return { ...syntax, options: syntax.options.map(outside) };
  if (syntax.kind === "repeat") return { ...syntax, part: outside(syntax.part) };
  if (syntax.kind !== "sequence") return syntax;
  const first = syntax.parts.findIndex(isQuote);
  const last = syntax.parts.findLastIndex(isQuote);
  const parts = syntax.parts.map((part, i) => {
    if (i === first || i === last) return part;
    return i > first && i < last ? inside(part) : outside(part);
  });
  return { ...syntax, parts };
}

function isQuote(syntax: Syntax): boolean {
  return syntax.kind === "text" && syntax.bytes.length === 1 && syntax.bytes[0] === QUOTE;
}

/** Between the quotes. */
function inside(syntax: Syntax): Syntax {
  switch (syntax.kind) {
    case "text":
      return { ...syntax, bytes: syntax.bytes.flatMap((byte) => (SPECIAL.includes(byte) ? escapeOf(byte) : [byte])) };
    case "class": {
      const isMember = (point: number): boolean =>
        syntax.ranges.some(([first, last]) => first <= point && point <= last);
      return {
        ...syntax,
        ranges: SPECIAL.reduce(without, syntax.ranges),
        texts: SPECIAL.filter(isMember).map(escapeOf),
      };
    }
    case "sequence":
      return { ...syntax, parts: syntax.parts.map(inside) };
    case "choice":
      return { ...syntax, options: syntax.options.map(inside) };
    case "repeat":
      return { ...syntax, part: inside(syntax.part) };
    default:
      return syntax;
  }
}

function escapeOf(point: number): readonly number[] {
  return [...Buffer.from(JSON.stringify(String.fromCharCode(point)).slice(1, -1))];
}

function without(ranges: readonly CodePointRange[], point: number): readonly CodePointRange[] {
  return ranges.flatMap(([first, last]): CodePointRange[] => {
    if (point < first || point > last) return [[first, last]];
    const below: CodePointRange[] = first < point ? [[first, point - 1]] : [];
    return point < last ? [...below, [point + 1, last]] : below;
  });
}
