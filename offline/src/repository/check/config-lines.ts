/** Finds lines in a configuration text by pattern, not by grammar, because broken files have lines too. Pure. */

/** The line of the value of a parameter, or of its key. Counts from 1. */
export function lineOfParameter(text: string, key: string): number | undefined {
  const lines = text.split("\n");
  const at = lines.findIndex((line) => withoutComment(line).includes(`"${key}"`) && /\bkey\b/.test(line));
  if (at === -1) return undefined;
  const value = lines.findIndex(
    (line, index) => index >= at && index < at + 6 && withoutComment(line).includes("string_value"),
  );
  return (value === -1 ? at : value) + 1;
}

/** The first line with a name in quotes, or unquoted when `isQuoted` is false. */
export function lineOfName(text: string, name: string): number | undefined {
  const at = text.split("\n").findIndex((line) => {
    const code = withoutComment(line);
    return code.includes(`"${name}"`) || code.includes(`'${name}'`);
  });
  return at === -1 ? undefined : at + 1;
}

export function lineOfField(text: string, field: string): number | undefined {
  const at = text
    .split("\n")
    .findIndex((line) => new RegExp(`(^|[\\s{,])${field}\\s*[:{[]`).test(withoutComment(line)));
  return at === -1 ? undefined : at + 1;
}

/** The most likely line of a message: the last quoted name that occurs in the text, or a field that it names. */
export function lineOfMessage(text: string, message: string): number | undefined {
  const quoted = [...message.matchAll(/'([^']+)'/g)].map((match) => match[1] ?? "").reverse();
  for (const name of quoted) {
    const line = lineOfName(text, name) ?? (/^[a-z_]+$/.test(name) ? lineOfField(text, name) : undefined);
    if (line !== undefined) return line;
  }
  const field = /\b[a-z]+(?:_[a-z]+)+\b|\binstance group\b/.exec(message)?.[0].replace(" ", "_");
  return field === undefined ? undefined : lineOfField(text, field);
}

/** A hash in quotes is rare and affects the line number only. */
function withoutComment(line: string): string {
  const at = line.indexOf("#");
  return at === -1 ? line : line.slice(0, at);
}
