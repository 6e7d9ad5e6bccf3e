/**
 * One rank of several without the others, for measurements: it runs its own share of a step, and collectives do
 * nothing. Its results are meaningless; the time of its GEMMs is right.
 */
import { placeOf, type RankPlace } from "../../models/shard/rank-shard.ts";
import type { GroupMember, RankLayout } from "./rank-group.ts";

export class IsolatedRank implements GroupMember {
  readonly place: RankPlace;

  /** Rank 0 of the last stage, which computes layers and logits. */
  constructor({ numTensorRanks, numStages }: RankLayout) {
    this.place = placeOf((numStages - 1) * numTensorRanks, numTensorRanks, numStages);
  }

  least(value: number): number {
    return value;
  }

  sum(): void {
    // No other rank adds anything.
  }

  receiveRows(): void {
    // Rows stay what they were.
  }

  sendRows(): void {
    // Nobody takes them.
  }

  gather(): void {
    // The parts of the others stay what they were.
  }

  returnLogits(): void {
    // Nobody waits for them.
  }

  copyRows(): void {
    // Nobody reads them.
  }

  close(): void {
    // It holds nothing.
  }
}
