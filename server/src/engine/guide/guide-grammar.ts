/** Guides as the grammar library takes them. Pure; the texts are a client's and are only looked at, never trusted. */
import { invalidArgument } from "../../core/server-error.ts";
import type { Guide } from "../request/generate.ts";

export type Grammar =
  | { readonly kind: "json" }
  | { readonly kind: "json_schema" | "regex" | "ebnf" | "structural_tag"; readonly text: string };

/** @throws ServerError invalid_argument */
export function grammarOf({ type, text }: Guide): Grammar {
  switch (type) {
    case "json":
      return { kind: "json" };
    case "json_schema":
    case "regex":
    case "structural_tag":
      return { kind: type, text };
    case "ebnf_grammar":
      return { kind: "ebnf", text };
    case "choice":
      return { kind: "ebnf", text: `root ::= ${parseChoices(text).map(quote).join(" | ")}` };
  }
}

function parseChoices(text: string): string[] {
  let choices: unknown;
  try {
    choices = JSON.parse(text);
  } catch {
    choices = undefined;
  }
  const list: readonly unknown[] = Array.isArray(choices) ? choices : [];
  const texts = list.filter((choice): choice is string => typeof choice === "string" && choice !== "");
  if (texts.length > 0 && texts.length === list.length) return texts;
  throw invalidArgument("a guide of type 'choice' must be a JSON list of texts, none of them empty");
}

/** A string literal in EBNF; characters that are not plain are escaped by code point. */
function quote(text: string): string {
  let quoted = "";
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    const isPlain = code >= 0x20 && code < 0x7f && char !== '"' && char !== "\\";
    quoted += isPlain ? char : `\\U${code.toString(16).padStart(8, "0")}`;
  }
  return `"${quoted}"`;
}
