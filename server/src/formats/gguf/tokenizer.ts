/**
 * Converts the tokenizer metadata of a GGUF file to tokenizer.json, so that one reader serves both. Source:
 * ggml/docs/gguf.md, "Tokenizer". Unknown kinds are refused by name: a wrong pre-tokenizer degrades a model silently.
 */

import type { TokenizerFiles } from "../tokenizer/tokenizer.ts";
import { type Metadata, type NamedToken, TOKEN_TYPES, TokenizerKeys } from "./tokenizer-keys.ts";
import { type TokenizerKind, tokenizerKindOf } from "./tokenizer-kinds.ts";

/** @throws Error naming file and key */
export function ggufTokenizerFiles(metadata: Metadata, file: string): TokenizerFiles {
  const keys = new TokenizerKeys(metadata, file);
  const kind = tokenizerKindOf(keys);
  const bos = keys.token("bos_token_id", kind.ids?.bos);
  const eos = keys.token("eos_token_id", kind.ids?.eos);
  const padding = keys.token("padding_token_id", kind.ids?.padding);
  const separator = keys.token("seperator_token_id", kind.ids?.separator); // GGUF spells it so
  return {
    tokenizer: {
      ...kind.sections,
      added_tokens: addedTokens(keys),
      post_processor: template(frameOf(keys, kind, { bos, eos, separator })),
    },
    config: { bos_token: bos?.text, eos_token: eos?.text, pad_token: padding?.text },
    chatTemplate: keys.chatTemplate(),
    codec: kind.codec,
  };
}

function addedTokens(keys: TokenizerKeys): readonly object[] {
  const { control, unknown, userDefined } = TOKEN_TYPES;
  const added: object[] = [];
  for (const [id, content] of keys.tokens.entries()) {
    const type = keys.typeOf(id);
    const isSpecial = type === control || type === unknown;
    if ((!isSpecial && type !== userDefined) || content === "") continue;
    added.push({
      id,
      content,
      special: isSpecial,
      normalized: false,
      single_word: false,
      lstrip: false,
      rstrip: false,
    });
  }
  return added;
}

interface Frame {
  readonly before: readonly NamedToken[];
  readonly between: readonly NamedToken[];
  readonly after: readonly NamedToken[];
  /** Segment of a second text. */
  readonly second: number;
}

type Special = Readonly<Record<"bos" | "eos" | "separator", NamedToken | undefined>>;

function frameOf(keys: TokenizerKeys, kind: TokenizerKind, { bos, eos, separator }: Special): Frame {
  const given = (flag: boolean, token: NamedToken | undefined): readonly NamedToken[] =>
    flag && token !== undefined ? [token] : [];
  const hasSeparator = kind.addsSeparator === true && (keys.flag("add_sep_token") ?? true);
  const separators = given(hasSeparator, separator);
  return {
    before: given(keys.flag("add_bos_token") ?? kind.addsBos, bos),
    between: separators,
    after: [...separators, ...given(keys.flag("add_eos_token") ?? kind.addsEos ?? false, eos)],
    second: kind.addsSeparator === true ? 1 : 0,
  };
}

function template({ before, between, after, second }: Frame): unknown {
  const special = (tokens: readonly NamedToken[], segment: number): object[] =>
    tokens.map(({ text }) => ({ SpecialToken: { id: text, type_id: segment } }));
  const text = (id: string, segment: number): object => ({ Sequence: { id, type_id: segment } });
  const start = [...special(before, 0), text("A", 0)];
  return {
    type: "TemplateProcessing",
    single: [...start, ...special(after, 0)],
    ...(second === 1 && { pair: [...start, ...special(between, 0), text("B", second), ...special(after, second)] }),
    special_tokens: Object.fromEntries(
      [...before, ...between, ...after].map(({ id, text }) => [text, { id: text, ids: [id], tokens: [text] }]),
    ),
  };
}
