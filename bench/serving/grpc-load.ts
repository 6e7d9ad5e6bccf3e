/**
 * Load for gRPC: unary calls one after another, or messages back and forth on streams that stay open. Knows nothing of what is
 * in a message.
 */
import type { AnswerSink } from "../../perf/src/load/exchange.ts";
import { GrpcClient, grpcFrame } from "../../perf/src/load/grpc-client.ts";
import { LOCAL_HOST, type Load, Tally } from "./load.ts";

export interface GrpcRequest {
  readonly path: string;
  readonly message: Uint8Array;
  readonly isStream: boolean;
}

export function startGrpcLoad(
  port: number,
  request: GrpcRequest,
  numConnections: number,
  numClients: number,
  host: string = LOCAL_HOST,
): Load {
  const tally = new Tally();
  const connections = Array.from({ length: numConnections }, () => new GrpcClient({ host, port }));
  const message = grpcFrame(request.message);
  for (let k = 0; k < numClients; k++) {
    const connection = connections[k % numConnections] as GrpcClient;
    if (request.isStream) repeatOnStream(connection, request.path, message, tally);
    else repeatCalls(connection, request.path, message, tally);
  }
  return {
    tally,
    stop: () => {
      for (const connection of connections) connection.close();
    },
  };
}

function repeatCalls(connection: GrpcClient, path: string, message: Uint8Array, tally: Tally): void {
  let startMs = performance.now();
  const sink: AnswerSink = {
    end(failure) {
      if (failure !== undefined) {
        tally.failed(new Error(`gRPC load: ${failure}`));
        return;
      }
      tally.answered(startMs);
      startMs = performance.now();
      connection.call(path, message, sink);
    },
  };
  connection.call(path, message, sink);
}

function repeatOnStream(connection: GrpcClient, path: string, message: Uint8Array, tally: Tally): void {
  let startMs = performance.now();
  const stream = connection.open(path, {
    part() {
      tally.answered(startMs);
      startMs = performance.now();
      stream.send(message);
    },
    end: (failure) => tally.failed(new Error(`gRPC load: ${failure ?? "the stream ended"}`)),
  });
  stream.send(message);
}
