/**
 * The sequences of one beam search. They run like any others and wait until all have offered their scores. Then they
 * advance together: the first continuation of a beam stays in its sequence, others are forked, and a beam without one
 * releases its blocks. beam-search.ts makes the choices.
 */

import type { FinishReason, Usage } from "../request/generate.ts";
import {
  type ScoreSource,
  Sequence,
  type SequenceForks,
  type SequenceGroup,
  type SequenceLimits,
} from "../request/sequence.ts";
import { BeamSearch } from "./beam-search.ts";
import { endsWith } from "./logits-processors.ts";

export class BeamGroup implements SequenceGroup {
  readonly width: number;
  /** Carries the request's clock; it may be a beam or spare. */
  readonly leader: Sequence;
  readonly #limits: SequenceLimits;
  readonly #search: BeamSearch;
  #live: Sequence[];
  readonly #spare: Sequence[] = [];
  readonly #all: Sequence[];
  readonly #offered = new Set<Sequence>();
  /** From its first tokens on it is several sequences; before that one that stands for them. */
  isForked = false;
  /** Removed: rows that still come for its beams mean nothing. */
  isOver = false;

  constructor(leader: Sequence, limits: SequenceLimits) {
    const { request } = leader;
    this.width = request.beamWidth;
    this.leader = leader;
    this.#limits = limits;
    this.#live = [leader];
    this.#all = [leader];
    this.#search = new BeamSearch({
      width: request.beamWidth,
      vocabSize: limits.vocabSize,
      numEndIds: request.endIds.length,
      lengthPenalty: request.lengthPenalty,
      earlyStopping: request.earlyStopping,
      diversityRate: request.beamDiversityRate,
      maxOutput: leader.maxLength - leader.promptLength,
    });
  }

  /** Takes the row of one beam; true when it was the last one missing. A beam computed again offers the same again. */
  offer(sequence: Sequence, row: Float32Array, scores: ScoreSource): boolean {
    const kept = sequence.request.generationLogits ? row.slice() : undefined;
    this.#search.offer(this.#live.indexOf(sequence), scores.ruledScores(row, sequence), kept);
    const isNew = !this.#offered.has(sequence);
    this.#offered.add(sequence);
    return isNew && this.#offered.size === this.#live.length;
  }

  /** Moves every beam one token on; true when the search is over. */
  advance(forks: SequenceForks, now: number): boolean {
    const search = this.#search;
    const { leader } = this;
    if (leader.firstTokenNs === 0) leader.firstTokenNs = now;
    leader.lastTokenNs = now;
    this.#offered.clear();
    search.advance((beam, token) => this.#endOf(beam, token));
    if (search.isDone) return true;
    this.isForked = true;
    this.#rearrange(forks, search.parents);
    for (const [i, sequence] of this.#live.entries()) sequence.append(search.tokens[i] ?? 0);
    return false;
  }

  /** Removes it from the planner and reports the beams to its sink. */
  finish(forks: SequenceForks): { readonly reason: FinishReason; readonly usage: Usage } {
    this.remove(forks);
    const { beams, reason } = this.#search.results(this.leader.request.numReturnBeams);
    this.leader.sink.beams(beams);
    return { reason, usage: this.#usage(beams[0]?.tokenIds.length ?? 0) };
  }

  cancelledUsage(): Usage {
    return this.#usage(0);
  }

  remove(forks: SequenceForks): void {
    this.isOver = true;
    for (const sequence of this.#live) forks.remove(sequence);
  }

  #usage(outputTokens: number): Usage {
    const newBlocks = this.#all.reduce((sum, sequence) => sum + sequence.newBlocks, 0);
    return { ...this.leader.usage(), outputTokens, newBlocks };
  }

  #rearrange(forks: SequenceForks, parents: readonly number[]): void {
    const continued = new Set(parents);
    for (const [beam, sequence] of this.#live.entries()) {
      if (continued.has(beam)) continue;
      forks.remove(sequence); // before any fork: its blocks are enough for the copies
      this.#spare.push(sequence);
    }
    const isFirst = new Set<number>();
    this.#live = parents.map((parent) => {
      const sequence = this.#live[parent] ?? this.leader;
      if (!isFirst.has(parent)) {
        isFirst.add(parent);
        return sequence;
      }
      return this.#fork(forks, sequence);
    });
  }

  #fork(forks: SequenceForks, parent: Sequence): Sequence {
    const child = this.#spare.pop() ?? this.#create();
    child.becomeCopyOf(parent);
    forks.fork(parent, child);
    return child;
  }

  #create(): Sequence {
    const { leader } = this;
    const child = new Sequence(leader.request, leader.sink, this.#limits);
    child.group = this;
    child.postProcess = leader.postProcess;
    child.adapter = leader.adapter;
    this.#all.push(child);
    return child;
  }

  #endOf(beam: number, token: number): "end" | "stop" | undefined {
    const sequence = this.#live[beam] ?? this.leader;
    const { endIds } = sequence;
    const { stopWords } = sequence.request;
    if (endIds.includes(token)) return "end";
    for (const word of stopWords) {
      const length = word.length - 1;
      if (word[length] === token && length <= sequence.numOutput && endsWith(sequence, word, length)) return "stop";
    }
    return undefined;
  }
}
