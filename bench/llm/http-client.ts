/** One generation over HTTP: `generate_stream` of the model `ensemble`. */
import { NEW_TOKENS } from "./prompts.ts";
import { Arrivals, type Generation } from "./stream.ts";

const EVENT_START = "data: ";

export async function generateOverHttp(port: number, prompt: string): Promise<Generation> {
  const arrivals = new Arrivals();
  const response = await fetch(`http://127.0.0.1:${port}/v2/models/ensemble/generate_stream`, {
    method: "POST",
    body: JSON.stringify({ text_input: prompt, max_tokens: NEW_TOKENS, min_length: NEW_TOKENS, stream: true }),
  });
  if (!response.ok || response.body === null) throw new Error(`${response.status}: ${await response.text()}`);
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + text).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      if (!event.startsWith(EVENT_START) || event.includes('"error"')) throw new Error(`no token: ${event}`);
      arrivals.arrived();
    }
  }
  return arrivals.end();
}
