/**
 * One of several GPUs without the others: it does what of a step is its own, and what the others would add is not there. Its
 * results mean nothing; how long its products take does.
 */
import { placeOf, type RankPlace } from "../../models/shard/rank-shard.ts";
import type { GroupMember, RankLayout } from "./rank-group.ts";

export class IsolatedRank implements GroupMember {
  readonly place: RankPlace;

  /** Of the last stage, which has logits to make beside layers. */
  constructor({ numTensorRanks, numStages }: RankLayout) {
    this.place = placeOf((numStages - 1) * numTensorRanks, numTensorRanks, numStages);
  }

  least(value: number): number {
    return value;
  }

  sum(): void {
    // Nobody adds anything.
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
