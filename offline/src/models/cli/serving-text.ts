/** The text of `nereid serve NAME` once the model answers: where, and how each kind of client asks. Pure. */
import { urlOf } from "@nereid/server/cli/curl-hints";

export type Endpoints = ReadonlyMap<string, { readonly address: string; readonly port: number }>;

/** `hasConsole`: it is served. It is off where other machines reach the port, unless its user asks for it. */
export function servingText(name: string, endpoints: Endpoints, hasConsole: boolean): string {
  const http = endpoints.get("http");
  if (http === undefined) return `\n${name} is ready.\n`;
  const url = urlOf(http.address, http.port, false);
  const others = [...endpoints].filter(([protocol]) => protocol !== "http");
  const further = others.map(
    ([protocol, { address, port }]) => `${protocol} ${urlOf(address, port, protocol === "grpc")}`,
  );
  const chat = JSON.stringify({ model: name, messages: [{ role: "user", content: "Hello" }] });
  const rows = [
    `  OpenAI     curl ${url}/v1/chat/completions -d '${chat}'`,
    `  Anthropic  ANTHROPIC_BASE_URL=${url}`,
    `  Ollama     OLLAMA_HOST=${url}`,
    `  KServe V2  curl ${url}/v2/models/ensemble/generate -d '{"text_input": "Hello", "max_tokens": 20}'`,
    `  Console    ${hasConsole ? `${url}/console` : "off, as other machines reach this port: --http-address=127.0.0.1 or --allow-console=true"}`,
  ];
  const also = further.length === 0 ? "" : ` (${further.join(", ")})`;
  return `\n${name} is ready at ${url}${also}\n${rows.join("\n")}\nCtrl-C stops it.\n\n`;
}
