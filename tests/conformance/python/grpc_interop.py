"""The shapes of gRPC's interoperability tests by grpcio, whose HTTP/2 is that of gRPC's C core."""

import contextlib
import queue

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc as stubs

from checks import GRPC, run_all

WAIT_S = 120
SPECIAL_TEXT = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n"
ENCODINGS = [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate]


@contextlib.contextmanager
def stub(compression=grpc.Compression.NoCompression):
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(GRPC, options=options, compression=compression) as channel:
        yield stubs.GRPCInferenceServiceStub(channel)


def infer(model, tensors, **fields):
    request = messages.ModelInferRequest(model_name=model, **fields)
    for name, datatype, values in tensors:
        request.inputs.add(name=name, datatype=datatype, shape=list(values.shape))
        request.raw_input_contents.append(values.tobytes())
    return request


def echo(model, values, **fields):
    return infer(model, [("INPUT0", "INT32", np.asarray(values, dtype=np.int32))], **fields)


def repeat(count, delay_ms=0):
    values = np.full(count, 3, dtype=np.int32)
    delays = np.full(count, delay_ms, dtype=np.uint32)
    return infer("repeat", [("IN", "INT32", values), ("DELAY", "UINT32", delays), ("WAIT", "UINT32", np.zeros(1, np.uint32))])


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def check_empty_unary():
    """grpcio: an empty unary call"""
    with stub() as server:
        assert server.ServerLive(messages.ServerLiveRequest(), timeout=WAIT_S).live


def check_large_unary():
    """grpcio: large unary calls with every compression"""
    values = np.arange(271828, dtype=np.int32)
    for encoding in ENCODINGS:
        with stub(encoding) as server:
            answer = server.ModelInfer(echo("echo", values), timeout=WAIT_S)
            assert answer.raw_output_contents[0] == values.tobytes()


def check_empty_stream():
    """grpcio: a stream without messages"""
    with stub() as server:
        assert list(server.ModelStreamInfer(iter([]), timeout=WAIT_S)) == []


def check_client_stream():
    """grpcio: a stream of requests with every compression"""
    for encoding in ENCODINGS:
        with stub(encoding) as server:
            requests = [echo("echo", [k] * (k + 1), id=str(k)) for k in range(50)]
            answers = list(server.ModelStreamInfer(iter(requests), timeout=WAIT_S))
            assert [answer.infer_response.id for answer in answers] == [str(k) for k in range(50)]


def check_server_stream():
    """grpcio: a request that streams a thousand answers"""
    with stub() as server:
        answers = list(server.ModelStreamInfer(iter([repeat(1000)]), timeout=WAIT_S))
        assert len(answers) == 1000


def check_ping_pong():
    """grpcio: ping-pong with messages of many sizes"""
    sizes = [1, 1000, 300_000, 7]
    with stub() as server:
        requests = queue.Queue()
        answers = server.ModelStreamInfer(iter(requests.get, None), timeout=WAIT_S)
        for size in sizes:
            requests.put(echo("echo", np.arange(size)))
            assert next(answers).infer_response.raw_output_contents[0] == np.arange(size, dtype=np.int32).tobytes()
        requests.put(None)
        assert list(answers) == []


def check_cancel_after_begin():
    """grpcio: a stream that is cancelled once begun"""
    with stub() as server:
        call = server.ModelStreamInfer(iter([repeat(1000, 50)]), timeout=WAIT_S)
        call.cancel()
        assert call.code() == grpc.StatusCode.CANCELLED


def check_cancel_after_first_response():
    """grpcio: a stream that is cancelled after its first response"""
    with stub() as server:
        call = server.ModelStreamInfer(iter([repeat(1000, 50)]), timeout=WAIT_S)
        next(call)
        call.cancel()
        assert call.code() == grpc.StatusCode.CANCELLED


def check_deadline():
    """grpcio: deadlines while the server sleeps, unary and on a stream"""
    with stub() as server:
        assert code_of(lambda: server.ModelInfer(echo("sleeper", [1]), timeout=0.25)) == grpc.StatusCode.DEADLINE_EXCEEDED
        stream = code_of(lambda: list(server.ModelStreamInfer(iter([repeat(10, 5000)]), timeout=0.25)))
        assert stream == grpc.StatusCode.DEADLINE_EXCEEDED


def check_special_status_message():
    """grpcio: a status with a special message"""
    with stub() as server:
        try:
            server.ModelInfer(echo(SPECIAL_TEXT, [1]), timeout=WAIT_S)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND
            assert error.details() == f"Request for unknown model: '{SPECIAL_TEXT}' is not found", error.details()
        else:
            raise AssertionError("the call succeeded")


def check_strict_errors():
    """grpcio: an error as the status of a stream, and as its message"""
    with stub() as server:
        failing = infer("late", [("INPUT0", "INT32", np.ones((1, 1), dtype=np.int32))])
        strict = server.ModelStreamInfer(iter([failing]), timeout=WAIT_S, metadata=[("triton_grpc_error", "true")])
        assert code_of(lambda: list(strict)) == grpc.StatusCode.UNAVAILABLE
        (answer,) = server.ModelStreamInfer(iter([echo("nope", [1])]), timeout=WAIT_S)
        assert "'nope' is not found" in answer.error_message


def check_unimplemented():
    """grpcio: methods and services that do not exist"""
    with grpc.insecure_channel(GRPC) as channel:
        for path in ["/inference.GRPCInferenceService/Nope", "/no.Such/Method"]:
            assert code_of(lambda: channel.unary_unary(path)(b"", timeout=WAIT_S)) == grpc.StatusCode.UNIMPLEMENTED


def check_many_streams():
    """grpcio: three hundred streams open at once on one connection"""
    with stub() as server:
        calls = [server.ModelStreamInfer(iter([repeat(3, 300)]), timeout=WAIT_S) for _ in range(300)]
        assert [len(list(call)) for call in calls] == [3] * 300


run_all(globals())
