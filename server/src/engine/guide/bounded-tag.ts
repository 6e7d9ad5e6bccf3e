/**
 * Structural tags whose JSON has bounded gaps: a model that knows nothing would fill its tokens with spaces. The library
 * bounds them for a schema alone, so each schema in a tag becomes a grammar. Source: xgrammar's "Structural Tag".
 */

/** EBNF of a JSON schema. */
export type SchemaGrammar = (schema: unknown) => Promise<string>;

/** @throws what `grammarOf` throws */
export async function boundedTag(format: unknown, grammarOf: SchemaGrammar): Promise<unknown> {
  if (Array.isArray(format)) return Promise.all(format.map((each) => boundedTag(each, grammarOf)));
  if (typeof format !== "object" || format === null) return format;
  if ("type" in format && format.type === "json_schema" && "json_schema" in format) {
    return { type: "grammar", grammar: await grammarOf(format.json_schema) };
  }
  const entries = Object.entries(format).map(
    async ([key, value]) => [key, await boundedTag(value, grammarOf)] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}
