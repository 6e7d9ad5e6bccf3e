/** Gives 200 words, one after the other. */
export async function* execute(): AsyncGenerator<{ text_output: string[] }> {
  for (let i = 0; i < 200; i++) yield { text_output: ["word "] };
}
