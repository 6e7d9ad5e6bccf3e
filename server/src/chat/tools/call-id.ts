/** Identifiers of calls, as clients know them from OpenAI; Mistral's templates want nine letters and digits. */
import { randomBytes } from "node:crypto";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const OPENAI_LENGTH = 24;

/** @param length undefined: OpenAI's form `call_...` */
export function newCallId(length?: number): string {
  const letters = [...randomBytes(length ?? OPENAI_LENGTH)].map((byte) => LETTERS[byte % LETTERS.length]).join("");
  return length === undefined ? `call_${letters}` : letters;
}
