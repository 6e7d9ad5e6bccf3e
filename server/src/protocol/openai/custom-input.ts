/**
 * The input of a custom tool's call, as it arrives: the model writes it as the member `input` of a JSON object. Sources:
 * RFC 8259, 7; OpenAI's API reference, streaming events, "response.custom_tool_call_input.delta".
 */
import { isObject } from "../api/schema.ts";

const HEAD = /^\s*\{\s*"input"\s*:\s*"/;
/** Characters that stand for themselves, and escapes that are whole. */
const WHOLE = /^(?:[^"\\]|\\u[\dA-Fa-f]{4}|\\[^u])*/s;
const HIGH_SURROGATE_AT_END = /\\u[dD][89abAB][\dA-Fa-f]{2}$/;

export class CustomInput {
  /** Behind the last character that was given out. */
  #rest = "";
  #state: "head" | "text" | "over" = "head";

  /** The text that this piece of the arguments completes. */
  push(piece: string): string {
    if (this.#state === "over") return "";
    this.#rest += piece;
    if (this.#state === "head" && !this.#passHead()) return "";
    const escaped = (WHOLE.exec(this.#rest)?.[0] ?? "").replace(HIGH_SURROGATE_AT_END, "");
    this.#rest = this.#rest.slice(escaped.length);
    if (this.#rest.startsWith('"')) this.#state = "over";
    return unescaped(escaped);
  }

  /** The rest. Arguments without this form, from a model that no grammar held, are the input as they are. */
  end(): string {
    const rest = this.#state === "head" ? inputOf(this.#rest) : "";
    this.#state = "over";
    return rest;
  }

  #passHead(): boolean {
    const head = HEAD.exec(this.#rest)?.[0];
    if (head === undefined) return false;
    this.#rest = this.#rest.slice(head.length);
    this.#state = "text";
    return true;
  }
}

/** A model may write line breaks as they are, and escapes that JSON has not. */
function unescaped(escaped: string): string {
  if (!escaped.includes("\\")) return escaped;
  return escaped.replaceAll(/\\(?:u([\dA-Fa-f]{4})|(.))/gs, (_, digits: string | undefined, sign: string) => {
    return digits === undefined ? (SIGNS.get(sign) ?? sign) : String.fromCharCode(Number.parseInt(digits, 16));
  });
}

const SIGNS: ReadonlyMap<string, string> = new Map([
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
]);

function inputOf(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) && typeof value.input === "string" ? value.input : text;
  } catch {
    return text;
  }
}
