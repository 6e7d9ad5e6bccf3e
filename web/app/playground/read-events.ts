/** The data of server-sent events, one at a time. Source: HTML Living Standard, "Server-sent events". */

/** Ends with the response. Events that break off are dropped. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const events = rest.split(/\r?\n\r?\n/);
      rest = events.pop() ?? "";
      for (const event of events) {
        const data = dataOf(event);
        if (data !== undefined) yield data;
      }
      if (done) return;
    }
  } finally {
    await reader.cancel();
  }
}

function dataOf(event: string): string | undefined {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.length === 0 ? undefined : lines.map((line) => line.slice("data:".length).replace(/^ /, "")).join("\n");
}
