/**
 * Drafts by n-gram lookup: matches a sequence's last tokens in its own prompt and output (prompt lookup decoding). It
 * needs no model and no memory.
 */
import type { Sequence } from "../request/sequence.ts";
import { type Drafter, wantDrafts, wantedDrafts } from "./drafter.ts";
import { draftByNgram } from "./ngram-lookup.ts";
import type { SpeculationConfig } from "./speculation-config.ts";

export class NgramDrafter implements Drafter {
  readonly #config: SpeculationConfig;
  readonly #limits: { readonly ngramSize: number; readonly vocabSize: number };
  readonly #countsMisses: boolean;

  /** @param countsMisses a look-up that finds nothing costs as much as a wrong draft: steps were not planned ahead of it */
  constructor(config: SpeculationConfig, vocabSize: number, countsMisses = false) {
    this.#config = config;
    this.#limits = { ngramSize: config.ngramSize, vocabSize };
    this.#countsMisses = countsMisses;
  }

  holdsBack(sequences: Iterable<Sequence>): boolean {
    return wantDrafts(sequences, this.#config);
  }

  propose(sequences: Iterable<Sequence>): void {
    for (const sequence of sequences) {
      const wanted = wantedDrafts(sequence, this.#config);
      if (wanted === 0) continue;
      sequence.reserve(wanted);
      sequence.numDrafts = draftByNgram(sequence.tokens, sequence.numTokens, wanted, this.#limits);
      if (sequence.numDrafts === 0 && this.#countsMisses) sequence.pace.record(1, 0);
    }
  }
}
