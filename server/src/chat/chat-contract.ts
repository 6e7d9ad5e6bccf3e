/**
 * The types between chat formats and the front ends that use them: templates render messages to a prompt, formats
 * constrain and parse the text that comes back. Sources: transformers' chat templating guide; OpenAI's API reference,
 * "Create chat completion". Types only.
 */

import type { InputGrammar } from "./input-grammar/input-grammar.ts";

/** One message in the shape of transformers' templates: that of OpenAI's API, with arguments parsed. */
export interface ChatMessage {
  readonly role: string;
  /** Text, or parts in their order; null beside tool calls. */
  readonly content: string | readonly ContentPart[] | null;
  readonly name?: string | undefined;
  /** Reasoning of an earlier turn, for templates that show it again. */
  readonly reasoning_content?: string | undefined;
  readonly tool_calls?: readonly ChatToolCall[] | undefined;
  readonly tool_call_id?: string | undefined;
}

/** `image` stands for one image; the pixels travel beside the prompt, in the order of the parts. */
export type ContentPart = { readonly type: "text"; readonly text: string } | { readonly type: "image" };

export interface ChatToolCall {
  readonly id: string;
  readonly type: "function";
  /** Parsed where it is JSON: templates write it in their own form. Else the text as it came. */
  readonly function: { readonly name: string; readonly arguments: unknown };
}

export interface ChatTool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string | undefined;
    /** JSON schema of the arguments; absent: an object of any form. */
    readonly parameters?: Readonly<Record<string, unknown>> | undefined;
    /** Arguments must follow the schema exactly. */
    readonly strict?: boolean | undefined;
  };
}

/** Grammars of the one argument `input` that a tool has, by its name; beside the tools, since templates show all of these. */
export type InputGrammars = ReadonlyMap<string, InputGrammar>;

export type ToolChoice = "auto" | "none" | "required" | { readonly name: string };

/** Further members are variables of the template: `enable_thinking`, `reasoning_effort`, `documents`. */
export interface TemplateVariables {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[] | undefined;
  /** Ends the prompt with the start of the assistant's turn. */
  readonly addGenerationPrompt: boolean;
  readonly [variable: string]: unknown;
}

export interface ChatTemplate {
  /** Bounded in time and memory. @throws ServerError invalid_argument with the template's own `raise_exception` text */
  render(variables: TemplateVariables): Promise<string>;
}

/** Required form of the output, in the engine's words; `structural_tag` is xgrammar's JSON document. */
export interface OutputGuide {
  readonly type: "json" | "json_schema" | "regex" | "ebnf_grammar" | "structural_tag";
  readonly text: string;
}

/** Index of a call within one answer, from 0. Text deltas of one answer add up to its text. */
export type OutputDelta =
  | { readonly type: "text" | "reasoning"; readonly text: string }
  | { readonly type: "tool-call-start"; readonly index: number; readonly id: string; readonly name: string }
  | { readonly type: "tool-call-arguments"; readonly index: number; readonly text: string }
  | { readonly type: "tool-call-end"; readonly index: number };

/** Parses one answer as it arrives. State belongs to one answer. */
export interface OutputParser {
  /** Deltas that this text completes. Text that may still begin a call or a marker is held back. */
  push(text: string): readonly OutputDelta[];
  /** The rest, once; an unfinished call is ended. */
  end(): readonly OutputDelta[];
}

/** Facts of one request for its parser. */
export interface ParserOptions {
  /** The rendered prompt: it may end inside a reasoning block. */
  readonly prompt: string;
  readonly tools: readonly ChatTool[];
  readonly choice: ToolChoice;
}

/** How a family of models writes tool calls: one row of the table. */
export interface ToolFormat {
  /** As `tool_format` in `parameters` names it: `llama3`, `hermes`, `mistral`. */
  readonly name: string;
  /** Special tokens that must stay in the text for the parser; all others are left out of it. */
  readonly specialTokens: readonly string[];
  /** Undefined: nothing to constrain, as with choice `none`. */
  grammarFor(
    tools: readonly ChatTool[],
    choice: ToolChoice,
    parallel: boolean,
    /** The rendered prompt: reasoning that it opens comes before calls that are required. */
    prompt?: string,
    inputs?: InputGrammars,
  ): OutputGuide | undefined;
}

/** How a family marks its reasoning. */
export interface ReasoningFormat {
  /** As `reasoning_format` in `parameters` names it: `deepseek_r1`, `qwen3`, `gpt_oss`, `none`. */
  readonly name: string;
  readonly specialTokens: readonly string[];
  /** Marks around it; absent where it is a channel of its own, as in harmony. */
  readonly open?: string;
  readonly close?: string;
}

/** Everything about the chat form of one model. */
export interface ChatFormat {
  /** Undefined: the model has no template, and takes messages as plain lines. */
  readonly template: ChatTemplate | undefined;
  readonly tools: ToolFormat;
  readonly reasoning: ReasoningFormat | undefined;
  /** Reasoning split and tool calls together; without tools only the former. */
  openParser(options: ParserOptions): OutputParser;
}

/** Facts of a model from which its chat format is found. */
export interface ChatFormatSource {
  /** Text of the Jinja template; undefined: none. */
  readonly template: string | undefined;
  readonly bosToken: string | undefined;
  readonly eosToken: string | undefined;
  /** Names from `parameters`; undefined: guessed from the template. @see ToolFormat */
  readonly toolFormat: string | undefined;
  readonly reasoningFormat: string | undefined;
}

/** Implemented by `server/src/chat/chat-format.ts`. @throws ServerError invalid_argument for an unknown format name */
export type CreateChatFormat = (source: ChatFormatSource) => ChatFormat;
