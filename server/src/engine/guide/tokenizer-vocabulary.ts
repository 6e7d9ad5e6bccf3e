/** The vocabulary of a tokenizer.json as grammars need it: every token by its id, and how tokens stand for bytes. */

/** `byte_level`: a letter for each byte (GPT-2). `byte_fallback`: "▁" for a space and <0x0A> for bytes (Llama 2). */
export type VocabularyType = "byte_level" | "byte_fallback" | "raw";

export interface Vocabulary {
  /** By id; ids without a token have "". */
  readonly tokens: string[];
  readonly type: VocabularyType;
  /** Decoders leave these out of a text. */
  readonly specials: readonly { readonly id: number; readonly text: string }[];
}

/** @throws Error when the file has no vocabulary of the usual shape */
export function readVocabulary(file: unknown): Vocabulary {
  const { model, added_tokens: added, decoder } = record(file);
  const tokens: string[] = [];
  const vocab = record(model).vocab;
  if (Array.isArray(vocab))
    for (const [id, entry] of vocab.entries()) put(tokens, id, Array.isArray(entry) ? entry[0] : entry);
  else for (const [token, id] of Object.entries(record(vocab))) put(tokens, id, token);
  for (const entry of Array.isArray(added) ? added : []) put(tokens, record(entry).id, record(entry).content);
  if (tokens.length === 0) throw new Error("tokenizer.json has no vocabulary");
  const specials = list(added).map(record).flatMap(specialOf);
  return { tokens: Array.from(tokens, (token) => token ?? ""), type: typeOf(decoder), specials };
}

function specialOf({ id, content, special }: Readonly<Record<string, unknown>>): { id: number; text: string }[] {
  return special === true && typeof id === "number" && typeof content === "string" ? [{ id, text: content }] : [];
}

function put(tokens: string[], id: unknown, token: unknown): void {
  if (typeof id === "number" && Number.isSafeInteger(id) && id >= 0 && typeof token === "string") tokens[id] = token;
}

function typeOf(decoder: unknown): VocabularyType {
  const steps = [decoder, ...list(record(decoder).decoders)].map((step) => record(step).type);
  if (steps.includes("ByteLevel")) return "byte_level";
  return steps.includes("ByteFallback") || steps.includes("Metaspace") ? "byte_fallback" : "raw";
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
