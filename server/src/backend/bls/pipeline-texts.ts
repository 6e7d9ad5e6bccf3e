/**
 * Postprocesses texts of a pipeline: cuts them at stop words, and accumulates them on request. One state for each beam
 * of each sequence of each row. Knows tensors of texts, no model.
 */
import { bytesElements, packBytesElements } from "../../core/bytes-tensor.ts";
import type { Tensor } from "../../core/tensor.ts";
import { StopScan } from "./stop-scan.ts";

export interface TextRules {
  /** Stop words of each row; empty lists where there are none. */
  readonly stopWords: readonly (readonly string[])[];
  /** Text of each row's prompt as it comes back in front of the output; "" where it does not. */
  readonly prompts: readonly string[];
  readonly accumulates: boolean;
  /** Sequences that each row gets. */
  readonly numSequences: number;
}

interface Beam {
  readonly scan: StopScan;
  text: string;
}

export class PipelineTexts {
  readonly #rules: TextRules;
  readonly #beams = new Map<string, Beam>();
  readonly #stopped = new Set<string>();

  constructor(rules: TextRules) {
    this.#rules = rules;
  }

  /** Every sequence of every row has met a stop word. */
  get allStopped(): boolean {
    return this.#stopped.size === this.#rules.stopWords.length * this.#rules.numSequences;
  }

  isStopped(row: number, sequence: number): boolean {
    return this.#stopped.has(`${row}.${sequence}`);
  }

  /** `texts` has all beams of `numRows` rows in order, in any shape; the first row is `firstRow`. */
  apply(texts: Tensor, numRows: number, firstRow: number, sequence: number): Tensor {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const pieces = bytesElements(texts).map((bytes) => decoder.decode(bytes));
    const numBeams = numRows === 0 ? 0 : pieces.length / numRows;
    const changed = pieces.map((piece, i) => {
      const row = firstRow + Math.floor(i / numBeams);
      return this.#push(piece, row, sequence, i % numBeams);
    });
    for (let row = firstRow; row < firstRow + numRows; row++) this.#noteStop(row, sequence, numBeams);
    return { ...texts, data: packBytesElements(changed) };
  }

  #push(piece: string, row: number, sequence: number, index: number): string {
    const beam = this.#beam(row, sequence, index);
    const prompt = this.#rules.prompts[row] ?? "";
    const start = beam.text === "" && piece.startsWith(prompt) ? prompt.length : 0;
    const part = piece.slice(0, start) + beam.scan.push(piece.slice(start));
    if (!this.#rules.accumulates) return part;
    beam.text += part;
    return beam.text;
  }

  #noteStop(row: number, sequence: number, numBeams: number): void {
    for (let i = 0; i < numBeams; i++) if (!this.#beam(row, sequence, i).scan.isOver) return;
    this.#stopped.add(`${row}.${sequence}`);
  }

  #beam(row: number, sequence: number, index: number): Beam {
    const key = `${row}.${sequence}.${index}`;
    let beam = this.#beams.get(key);
    if (beam === undefined) {
      beam = { scan: new StopScan(this.#rules.stopWords[row] ?? []), text: "" };
      this.#beams.set(key, beam);
    }
    return beam;
  }
}
