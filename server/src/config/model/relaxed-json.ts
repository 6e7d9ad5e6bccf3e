/**
 * The JSON that Protobuf's parser takes beyond the standard: keys without quotes, and text in single quotes. Source:
 * protobuf, src/google/protobuf/json/internal/lexer.cc ("allow_legacy_syntax"), which Triton's server uses. Pure.
 */

/** A text in either quotes, or a word with the colon behind it. Ends are optional: no part is read twice, so the time is linear. */
const TOKEN = /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[A-Za-z_$][\w$]*\s*:?/g;

/** The same as standard JSON where it was relaxed; anything else stays as it is, for the parser to refuse. */
export function strictJson(text: string): string {
  return text.replace(TOKEN, (token) => {
    if (/^'.*'$/s.test(token) && token.length > 1) return inDoubleQuotes(token.slice(1, -1));
    const isKey = token.endsWith(":") && !token.startsWith('"');
    return isKey ? `"${token.slice(0, -1).trimEnd()}":` : token;
  });
}

function inDoubleQuotes(inner: string): string {
  return `"${inner.replace(/\\.|"/g, (part) => (part === "\\'" ? "'" : part === '"' ? '\\"' : part))}"`;
}
