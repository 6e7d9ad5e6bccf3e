/** The HTTP front end of the inference protocol: its API and its listener (KServe V2, HTTP/REST). */
import type { KeyGate } from "../../access/key-gate.ts";
import type { CorsOptions } from "../../config/flags/server-options.ts";
import type { ModelServer } from "../../core/model-server.ts";
import type { OpenAiRestrictedApi } from "../../core/restricted-api.ts";
import type { Logger } from "../../observe/log.ts";
import { ApiChain } from "../api/api-chain.ts";
import type { JsonApi } from "../api/json-api.ts";
import type { BoundAddress } from "../bind.ts";
import type { Http2Stream } from "../http2/stream.ts";
import type { LoadReports } from "../load-report-text.ts";
import type { RestrictedGroup } from "../restriction.ts";
import { SharedMemoryRegions } from "../shared-memory.ts";
import { type AccessLogName, withAccessLog } from "./access-log.ts";
import { withCors } from "./cors.ts";
import type { JsonThreads } from "./json/json-threads.ts";
import { HttpApi, type HttpApiOptions } from "./routes/http-api.ts";
import { type ApiHandler, HttpListener, type ListenerOptions } from "./transport/listener.ts";

export interface HttpFrontendOptions extends HttpApiOptions, ListenerOptions {}

export interface HttpFrontend {
  /** @throws the error of the socket, e.g. EADDRINUSE */
  listen(): Promise<BoundAddress>;
  /** Answers one request that came on a stream of HTTP/2, to a port that is shared. `onClosed`: it has ended. */
  acceptStream(stream: Http2Stream, onClosed: () => void): void;
  /** Connections and requests that are open. */
  readonly connectionCount: number;
  readonly callCount: number;
  /**
   * Takes no new connections, answers what is in flight, then closes. After `graceMs` what is left is cut. `isHandedOver`: another
   * process takes new connections from now on.
   */
  close(graceMs?: number, isHandedOver?: boolean): Promise<void>;
}

export interface HttpFrontendDependencies {
  readonly server: ModelServer;
  readonly options: HttpFrontendOptions;
  /** Absent: clients cannot register shared memory. */
  readonly regions?: SharedMemoryRegions;
  readonly log: Logger;
  /** For large JSON; absent: it is read and written by the event loop. */
  readonly threads?: JsonThreads;
  /** Absent: no load reports. */
  readonly load?: LoadReports;
  /** Absent: no route needs an API key. */
  readonly keys?: KeyGate | undefined;
  /** Headers that the metrics page asks for. */
  readonly openAiRestricted?: readonly RestrictedGroup<OpenAiRestrictedApi>[];
  /** Absent: browsers show answers to no page of another origin. */
  readonly cors?: CorsOptions | undefined;
  /** Further APIs behind the same port. */
  readonly apis?: readonly JsonApi[];
  /** The metrics page, for scrapers that read the port of the requests; absent: it is not served. */
  readonly metricsPage?: () => Promise<string>;
}

export function createHttpFrontend({ regions, apis = [], ...parts }: HttpFrontendDependencies): HttpFrontend {
  const api = new HttpApi({ ...parts, regions: regions ?? new SharedMemoryRegions(false) });
  const handler = apis.length === 0 ? api : new ApiChain(apis, api);
  return createApiFrontend(withCors(handler, parts.cors), parts.options, parts.log);
}

/** A front end of another protocol over HTTP; `name`: as the access log names it. */
export function createApiFrontend(
  api: ApiHandler,
  options: ListenerOptions,
  log: Logger,
  name?: AccessLogName,
): HttpFrontend {
  const listener = new HttpListener(withAccessLog(api, log, name), options, log);
  return {
    listen: () => listener.listen(),
    acceptStream: (stream, onClosed) => listener.acceptStream(stream, onClosed),
    get connectionCount() {
      return listener.connectionCount;
    },
    get callCount() {
      return listener.callCount;
    },
    close: (graceMs, isHandedOver) => listener.close(graceMs, isHandedOver),
  };
}
