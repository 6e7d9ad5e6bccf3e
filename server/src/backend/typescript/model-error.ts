/** Errors on their way between threads: the code and message that clients see, the stack that the log gets. */
import { ERROR_CODE_NAMES, type ErrorCode, ServerError } from "../../core/server-error.ts";
import type { PackedError } from "./messages.ts";

export function packError(thrown: unknown): PackedError {
  const code = codeOf(thrown);
  if (!(thrown instanceof Error)) return { code, message: String(thrown), stack: "" };
  return { code, message: thrown.message, stack: stackOf(thrown) };
}

export function errorOf({ code, message, stack }: PackedError): ServerError {
  const cause = stack === "" ? undefined : stack;
  return new ServerError(isErrorCode(code) ? code : "internal", message, {
    cause,
    reason: code === "cancelled" ? "CANCELED" : "BACKEND",
  });
}

export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === "string" && Object.hasOwn(ERROR_CODE_NAMES, code);
}

function codeOf(thrown: unknown): ErrorCode {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
  if (isErrorCode(code)) return code;
  return thrown instanceof Error && thrown.name === "AbortError" ? "cancelled" : "internal";
}

/** Frames of the code around the model, and of Node itself. */
const OTHERS = /backend[/\\]typescript[/\\]worker|\bnode:internal[/\\]|^ +at async Promise\.all \(index \d+\)$/;

/** With what caused it, and with the frames of the model alone. */
function stackOf(error: Error): string {
  const lines = (error.stack ?? error.message).split("\n").filter((line) => !OTHERS.test(line));
  while (lines.at(-1)?.endsWith("(<anonymous>)")) lines.pop();
  const cause = error.cause instanceof Error ? `\nCaused by: ${stackOf(error.cause)}` : "";
  return lines.join("\n") + cause;
}
