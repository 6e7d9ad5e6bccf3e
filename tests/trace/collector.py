"""A collector by the official messages of OpenTelemetry: gRPC with grpcio, HTTP with protobuf.

Prints the ports as JSON, then one JSON line for each export: its protocol, headers, resource, and spans with their
attributes and the names of their events. Refuses what is not an ExportTraceServiceRequest.
"""

import gzip
import json
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service

LOCK = threading.Lock()


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def show(protocol, headers, request):
    for resource_spans in request.resource_spans:
        spans = [span for scope in resource_spans.scope_spans for span in scope.spans]
        line = {
            "protocol": protocol,
            "headers": headers,
            "resource": attributes(resource_spans.resource.attributes),
            "spans": [
                {
                    "name": span.name,
                    "traceId": span.trace_id.hex(),
                    "spanId": span.span_id.hex(),
                    "parentSpanId": span.parent_span_id.hex(),
                    "kind": span.kind,
                    "nanoseconds": span.end_time_unix_nano - span.start_time_unix_nano,
                    "attributes": attributes(span.attributes),
                    "events": sorted(event.name for event in span.events),
                }
                for span in spans
            ],
        }
        with LOCK:
            print(json.dumps(line), flush=True)


class Traces(service.TraceServiceServicer):
    def Export(self, request, context):
        show("grpc", {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}, request)
        return messages.ExportTraceServiceResponse()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request = messages.ExportTraceServiceRequest()
        is_export = self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf"
        if is_export:
            request.ParseFromString(body)
            show("http/protobuf", {key.lower(): value for key, value in self.headers.items()}, request)
        answer = messages.ExportTraceServiceResponse().SerializeToString()
        self.send_response(200 if is_export else 404)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


grpc_server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
service.add_TraceServiceServicer_to_server(Traces(), grpc_server)
grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
grpc_server.start()
http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"grpc": grpc_port, "http": http_server.server_address[1]}), flush=True)
threading.Thread(target=http_server.serve_forever, daemon=True).start()
sys.stdin.read()
