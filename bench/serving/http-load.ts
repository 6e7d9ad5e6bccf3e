/** Load for HTTP/1.1: each client sends the same bytes again as soon as it is answered. Knows nothing of what is in a body. */
import type { AnswerSink } from "../../perf/src/load/exchange.ts";
import { HttpClient, type HttpRequest, httpRequestBytes } from "../../perf/src/load/http-client.ts";
import { LOCAL_HOST, type Load, Tally } from "./load.ts";

export type { HttpRequest } from "../../perf/src/load/http-client.ts";

export function startHttpLoad(port: number, request: HttpRequest, numClients: number, host: string = LOCAL_HOST): Load {
  const tally = new Tally();
  const bytes = httpRequestBytes(request, `${host}:${port}`);
  const clients = Array.from({ length: numClients }, () => new HttpClient({ host, port }));
  for (const client of clients) repeat(client, bytes, tally);
  return {
    tally,
    stop: () => {
      for (const client of clients) client.close();
    },
  };
}

function repeat(client: HttpClient, bytes: Uint8Array, tally: Tally): void {
  let startMs = performance.now();
  const sink: AnswerSink = {
    end(failure) {
      if (failure !== undefined) {
        tally.failed(new Error(failure));
        return;
      }
      tally.answered(startMs);
      startMs = performance.now();
      client.send(bytes, sink);
    },
  };
  client.send(bytes, sink);
}
