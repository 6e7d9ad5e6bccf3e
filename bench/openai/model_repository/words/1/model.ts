/** Gives one word. */
export function execute(): { text_output: string[] } {
  return { text_output: ["word"] };
}
