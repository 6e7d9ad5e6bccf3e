/**
 * Beam search over scores: which tokens continue which beams, which hypotheses are finished, and when none can improve.
 * Numbers in, numbers out: no sequences, no cache and no device.
 * A step takes the best candidates of all beams together. Candidates that end a text become finished hypotheses if they
 * are among the first `width`; the best others are the next beams. Finished hypotheses are ordered by log-probability /
 * length ^ lengthPenalty, where the length counts the end token (length penalty as in Wu et al. 2016).
 */
import type { BeamResult, EarlyStopping, FinishReason } from "../request/generate.ts";
import { logSumExp, topOf } from "./log-probs.ts";

export interface BeamSettings {
  readonly width: number;
  readonly vocabSize: number;
  readonly numEndIds: number;
  readonly lengthPenalty: number;
  readonly earlyStopping: EarlyStopping;
  readonly diversityRate: number;
  /** Tokens after which every beam ends. */
  readonly maxOutput: number;
}

/** One token of a beam; beams share what they have in common. */
interface BeamNode {
  readonly token: number;
  readonly logProb: number;
  /** The logits that it was chosen by, where they are wanted. */
  readonly row: Float32Array | undefined;
  readonly parent: BeamNode | undefined;
}

interface Hypothesis {
  readonly node: BeamNode | undefined;
  readonly cumLogProb: number;
  readonly score: number;
  readonly reason: FinishReason;
}

/**
 * Effect of a token on the beam that it continues: an "end" token is not part of the output, the last token of a stop
 * word is.
 */
export type EndRule = (beam: number, token: number) => "end" | "stop" | undefined;

export class BeamSearch {
  readonly #settings: BeamSettings;
  /** Candidates kept of each beam: enough that `width` remain when every end token is among them. */
  readonly #perBeam: number;
  readonly #ids: Int32Array;
  readonly #scores: Float32Array;
  /** By beam: log of the mass of its row. */
  readonly #masses: Float64Array;
  readonly #rows: (Float32Array | undefined)[];
  #nodes: (BeamNode | undefined)[] = [undefined];
  #cumLogProbs: number[] = [0];
  #hypotheses: Hypothesis[] = [];
  #length = 0;
  /** The beams after the last `advance()`: which beam each continues, and with what. */
  parents: readonly number[] = [];
  tokens: readonly number[] = [];
  isDone = false;

  constructor(settings: BeamSettings) {
    const { width, vocabSize, numEndIds } = settings;
    this.#settings = settings;
    this.#perBeam = Math.min(vocabSize, width * (1 + Math.max(1, numEndIds)));
    this.#ids = new Int32Array(width * this.#perBeam);
    this.#scores = new Float32Array(width * this.#perBeam);
    this.#masses = new Float64Array(width);
    this.#rows = new Array<Float32Array | undefined>(width).fill(undefined);
  }

  /** Gives the scores that `beam` goes on by; `row` is kept, if given, as the logits of the token to come. */
  offer(beam: number, scores: Float32Array, row: Float32Array | undefined): void {
    topOf(scores, this.#perBeam, this.#ids, this.#scores, beam * this.#perBeam);
    this.#masses[beam] = logSumExp(scores);
    this.#rows[beam] = row;
  }

  /** Takes one step once every beam has offered its scores. */
  advance(endOf: EndRule): void {
    const { width } = this.#settings;
    const next: { readonly parent: number; readonly node: BeamNode; readonly cumLogProb: number }[] = [];
    const candidates = this.#rank();
    this.#length += 1;
    for (const [rank, at] of candidates.entries()) {
      if (next.length === width) break;
      const beam = Math.floor(at / this.#perBeam);
      const token = this.#ids[at] ?? -1;
      const node = { token, logProb: this.#logProb(at), row: this.#rows[beam], parent: this.#nodes[beam] };
      const cumLogProb = (this.#cumLogProbs[beam] ?? 0) + node.logProb;
      const end = endOf(beam, token);
      if (end === undefined) next.push({ parent: beam, node, cumLogProb });
      else if (rank < width) this.#finish(end === "end" ? node.parent : node, cumLogProb, end);
    }
    this.isDone = this.#cannotImprove(candidates[0]) || next.length === 0;
    this.parents = next.map(({ parent }) => parent);
    this.tokens = next.map(({ node }) => node.token);
    this.#nodes = next.map(({ node }) => node);
    this.#cumLogProbs = next.map(({ cumLogProb }) => cumLogProb);
    if (this.#length === this.#settings.maxOutput && !this.isDone) this.#finishAll();
  }

  /** The finished hypotheses, best first. */
  results(count: number): { readonly beams: BeamResult[]; readonly reason: FinishReason } {
    const best = this.#hypotheses.slice(0, count);
    return { beams: best.map(toResult), reason: best[0]?.reason ?? "end" };
  }

  /** Indices of the possible candidates, best first, ties by beam and then by token. */
  #rank(): number[] {
    const { diversityRate, width, numEndIds } = this.#settings;
    const ranks = new Float64Array(this.#ids.length);
    const places: number[] = [];
    for (let at = 0; at < this.#nodes.length * this.#perBeam; at++) {
      const beam = Math.floor(at / this.#perBeam);
      ranks[at] = (this.#cumLogProbs[beam] ?? 0) + this.#logProb(at) + diversityRate * beam;
      if ((ranks[at] ?? 0) > Number.NEGATIVE_INFINITY) places.push(at);
    }
    places.sort((a, b) => (ranks[b] ?? 0) - (ranks[a] ?? 0) || a - b);
    return places.slice(0, width * (1 + Math.max(1, numEndIds)));
  }

  #logProb(at: number): number {
    return (this.#scores[at] ?? 0) - (this.#masses[Math.floor(at / this.#perBeam)] ?? 0);
  }

  /** Keeps the `width` best finished hypotheses in descending order; the older of equals comes first. */
  #finish(node: BeamNode | undefined, cumLogProb: number, reason: FinishReason): void {
    const score = this.#normalised(cumLogProb, this.#length);
    const found = this.#hypotheses.findIndex((other) => other.score < score);
    const place = found < 0 ? this.#hypotheses.length : found;
    this.#hypotheses.splice(place, 0, { node, cumLogProb, score, reason });
    this.#hypotheses.length = Math.min(this.#hypotheses.length, this.#settings.width);
  }

  #finishAll(): void {
    this.isDone = true;
    for (const [i, node] of this.#nodes.entries()) this.#finish(node, this.#cumLogProbs[i] ?? 0, "length");
  }

  /** `best` is the index of the best candidate of this step, ended or not. */
  #cannotImprove(best: number | undefined): boolean {
    const { width, earlyStopping, lengthPenalty, maxOutput } = this.#settings;
    const worst = this.#hypotheses[width - 1];
    if (worst === undefined || best === undefined) return false;
    if (earlyStopping === 1) return true;
    const length = earlyStopping === 2 && lengthPenalty > 0 ? maxOutput : this.#length;
    const cumLogProb = (this.#cumLogProbs[Math.floor(best / this.#perBeam)] ?? 0) + this.#logProb(best);
    return worst.score >= this.#normalised(cumLogProb, length);
  }

  #normalised(cumLogProb: number, length: number): number {
    return cumLogProb / length ** this.#settings.lengthPenalty;
  }
}

function toResult({ node, cumLogProb }: Hypothesis): BeamResult {
  const nodes: BeamNode[] = [];
  for (let at = node; at !== undefined; at = at.parent) nodes.unshift(at);
  const rowLength = nodes[0]?.row?.length ?? 0;
  const logits = new Float32Array(nodes.length * rowLength);
  for (const [i, { row }] of nodes.entries()) if (row !== undefined) logits.set(row, i * rowLength);
  return {
    tokenIds: Int32Array.from(nodes, ({ token }) => token),
    logProbs: Float32Array.from(nodes, ({ logProb }) => logProb),
    cumLogProb,
    logits,
  };
}
