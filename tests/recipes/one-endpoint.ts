/** Several hubs with one repository each, behind one address: what a recipe that downloads two models needs. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { FakeHub } from "../../server/src/hub/hub-server.test-support.ts";

export interface Endpoint extends AsyncDisposable {
  readonly url: string;
}

export async function openEndpoint(hubs: readonly FakeHub[]): Promise<Endpoint> {
  const server = createServer((request, response) => void forward(hubs, request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function forward(
  hubs: readonly FakeHub[],
  { url = "", method = "GET", headers }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const hub = hubs.find(({ repoId }) => url.includes(`/${repoId}/`));
  if (hub === undefined) {
    response.writeHead(404).end();
    return;
  }
  const sent = headers.range === undefined ? {} : { range: headers.range };
  const answer = await fetch(`${hub.endpoint}${url}`, { method, headers: sent, redirect: "manual" });
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  response.end(Buffer.from(await answer.arrayBuffer()));
}
