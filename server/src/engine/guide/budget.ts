/**
 * Work that one answer to a client's guide may take, in steps of a few nanoseconds. Counted rather than timed, so that a
 * busy machine refuses nothing that an idle one takes.
 */
export interface Budget {
  left: number;
}

/** Says that a guide takes too much work. */
export class BudgetError extends Error {}

/** @throws BudgetError once nothing is left */
export function charge(budget: Budget, steps: number): void {
  budget.left -= steps;
  if (budget.left < 0) throw new BudgetError("the guide takes too much work");
}
