/**
 * The grammar of a custom tool's input, in the form that guides take. Source: OpenAI's API reference, `tools` of the type
 * `custom`, `format`.
 */
import { MAX_LLM_GUIDE_CHARS } from "../../core/limits.ts";
import { ebnfOf, type TextGrammar } from "./expression.ts";
import { GrammarError } from "./grammar-error.ts";
import { readExpression } from "./read-expression.ts";
import { readLark } from "./read-lark.ts";

export { GrammarError };

/** EBNF whose first rule is `root`. */
export interface InputGrammar {
  /** The text itself. */
  readonly plain: string;
  /** A JSON string that holds the text, with its quotes. */
  readonly jsonString: string;
  /** A JSON object that holds that string as `input`. */
  readonly jsonObject: string;
}

/** @throws GrammarError */
export function readInputGrammar(syntax: "lark" | "regex", definition: string): InputGrammar {
  expectShort(definition);
  const grammar: TextGrammar =
    syntax === "lark"
      ? readLark(definition)
      : { rules: new Map(), start: readExpression(definition, { ignoresCase: false, isSingleLine: false }) };
  return {
    plain: expectShort(ebnfOf(grammar, "plain")),
    jsonString: expectShort(ebnfOf(grammar, "json-string", '"', '"')),
    jsonObject: expectShort(ebnfOf(grammar, "json-string", '{"input": "', '"}')),
  };
}

function expectShort(text: string): string {
  if (text.length <= MAX_LLM_GUIDE_CHARS) return text;
  throw new GrammarError(`it takes ${text.length} characters, expected at most ${MAX_LLM_GUIDE_CHARS}`);
}
