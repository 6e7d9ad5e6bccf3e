/** OTLP over HTTP/1.1, as protobuf or JSON. Source: OTLP specification, "OTLP/HTTP". */
import type { Agent, IncomingMessage } from "node:http";
import { request as requestHttps, Agent as TlsAgent } from "node:https";
import { GatherWriter } from "@nereid/wire";
import { http } from "../../../native/node-http.ts";
import {
  exportJson,
  messageOfJson,
  type OtlpExport,
  readPartialSuccess,
  readPartialSuccessJson,
  readRpcStatus,
  writeExport,
} from "./otlp-message.ts";
import { httpFailure, type OtlpOutcome } from "./otlp-outcome.ts";
import { compressed, MAX_ANSWER_BYTES, type OtlpSender, readTlsFiles, USER_AGENT, unreachable } from "./otlp-sender.ts";
import type { OtlpSettings } from "./otlp-settings.ts";

/** One connection is enough: exports follow one another. */
const AGENT = { keepAlive: true, maxSockets: 1 };

export class OtlpHttpSender implements OtlpSender {
  readonly #settings: OtlpSettings;
  readonly #writer = new GatherWriter();
  readonly #agent: Agent;
  readonly #isTls: boolean;
  readonly #isJson: boolean;

  /** @throws ServerError for an unreadable certificate */
  constructor(settings: OtlpSettings) {
    this.#settings = settings;
    this.#isTls = settings.url.startsWith("https:");
    this.#isJson = settings.protocol === "http/json";
    this.#agent = this.#isTls ? new TlsAgent({ ...AGENT, ...readTlsFiles(settings.tlsFiles) }) : new http.Agent(AGENT);
  }

  async send(batch: OtlpExport, signal: AbortSignal): Promise<OtlpOutcome> {
    const body = await compressed(this.#encode(batch), this.#settings.compression);
    try {
      return await this.#outcomeOf(await this.#post(body, signal));
    } catch (error) {
      return unreachable(error);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #encode(batch: OtlpExport): Uint8Array {
    if (this.#isJson) return Buffer.from(exportJson(batch));
    writeExport(this.#writer, batch);
    return Buffer.concat(this.#writer.finish());
  }

  #post(body: Uint8Array, signal: AbortSignal): Promise<IncomingMessage> {
    const { url, headers, compression } = this.#settings;
    return new Promise((resolve, reject) => {
      const request = (this.#isTls ? requestHttps : http.request)(url, {
        method: "POST",
        agent: this.#agent,
        signal,
        headers: {
          "user-agent": USER_AGENT,
          ...Object.fromEntries(headers),
          "content-type": this.#isJson ? "application/json" : "application/x-protobuf",
          "content-length": body.length,
          ...(compression === "gzip" ? { "content-encoding": "gzip" } : {}),
        },
      });
      request.once("response", resolve).once("error", reject).end(body);
    });
  }

  async #outcomeOf(response: IncomingMessage): Promise<OtlpOutcome> {
    const { statusCode: status = 0, headers } = response;
    const body = await answerBody(response);
    const isJson = headers["content-type"]?.startsWith("application/json") ?? this.#isJson;
    if (status >= 200 && status <= 299) {
      return { kind: "taken", ...(isJson ? readPartialSuccessJson(body.toString()) : readPartialSuccess(body)) };
    }
    const isProtobuf = headers["content-type"] === "application/x-protobuf";
    const message = isProtobuf ? readRpcStatus(body).message : messageOfJson(body.toString());
    return httpFailure({ status, retryAfter: headers["retry-after"], message }, Date.now());
  }
}

/** A longer answer is cut: its connection is not used again. */
async function answerBody(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let numBytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    numBytes += chunk.length;
    if (numBytes > MAX_ANSWER_BYTES) break;
  }
  return Buffer.concat(chunks);
}
