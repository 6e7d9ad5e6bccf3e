/**
 * Lists of pairs in variables: `key1=value1,key2=value2`, with percent-encoded values. Source: OpenTelemetry specification,
 * "Specifying headers via environment variables", W3C Baggage without properties. Pure.
 */
export function parsePairs(text: string): ReadonlyMap<string, string> | undefined {
  const pairs = new Map<string, string>();
  for (const part of text.split(",")) {
    if (part.trim() === "") continue;
    const equalsAt = part.indexOf("=");
    const key = part.slice(0, Math.max(0, equalsAt)).trim();
    const value = decoded(part.slice(equalsAt + 1).trim());
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(key) || value === undefined) return undefined;
    pairs.set(key, value);
  }
  return pairs;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
