/** The prompts of the benchmark: none begins like another, so that no cached prefix answers for it. */

const SUBJECTS = ["dog", "river", "teacher", "moon", "garden", "ship", "king", "mountain"];

export const NEW_TOKENS = 96;

export function promptOf(client: number, turn: number): string {
  const subject = SUBJECTS[client % SUBJECTS.length];
  return `${turn} times the ${subject} came back, and one day a little girl asked why. Nobody could tell her, so she`;
}
