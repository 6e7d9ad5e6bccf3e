/** Gathers what few requests ask for between two chunks of a sequence. Knows the lists by name and nothing of tokens. */
import type { GeneratedExtras } from "./generate.ts";

/** The lists in the order in which a process boundary numbers them. */
export const EXTRA_KINDS: readonly (keyof GeneratedExtras)[] = [
  "contextLogits",
  "generationLogits",
  "topIds",
  "topLogProbs",
  "promptLogProbs",
  "promptTopIds",
  "promptTopLogProbs",
];

export class ExtrasBuffer {
  readonly #parts = new Map<keyof GeneratedExtras, (Float32Array | Int32Array)[]>();

  add(kind: keyof GeneratedExtras, values: Float32Array | Int32Array): void {
    const parts = this.#parts.get(kind);
    if (parts === undefined) this.#parts.set(kind, [values]);
    else parts.push(values);
  }

  /** Takes the entries since the last call. */
  take(): GeneratedExtras {
    const extras: GeneratedExtras = {
      contextLogits: join(this.#parts.get("contextLogits"), Float32Array),
      generationLogits: join(this.#parts.get("generationLogits"), Float32Array),
      topIds: join(this.#parts.get("topIds"), Int32Array),
      topLogProbs: join(this.#parts.get("topLogProbs"), Float32Array),
      promptLogProbs: join(this.#parts.get("promptLogProbs"), Float32Array),
      promptTopIds: join(this.#parts.get("promptTopIds"), Int32Array),
      promptTopLogProbs: join(this.#parts.get("promptTopLogProbs"), Float32Array),
    };
    this.#parts.clear();
    return extras;
  }
}

function join<T extends Float32Array | Int32Array>(
  parts: readonly (Float32Array | Int32Array)[] = [],
  Values: new (length: number) => T,
): T {
  const joined = new Values(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
