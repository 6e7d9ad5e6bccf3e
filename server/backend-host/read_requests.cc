/* Requests out of the message that executes a batch. The counterpart is `encodeExecute` of native-host/messages.ts. */
#include "served_model.h"

namespace host {

namespace {

TRITONBACKEND_Input ReadInput(Reader& message, std::vector<uint64_t>* shared_offsets) {
  TRITONBACKEND_Input input;
  input.name = message.String();
  input.datatype = static_cast<TRITONSERVER_DataType>(message.U8());
  for (uint32_t left = message.U32(); left > 0; left--) input.shape.push_back(message.I64());
  if (message.U8() == INLINE) {
    input.byte_size = message.U32();
    message.Align();
    input.data = message.Data(input.byte_size);
    return input;
  }
  const uint64_t offset = message.U64();
  const uint64_t capacity = message.U64();
  input.byte_size = message.U64();
  input.data = TheHost().input_memory.At(offset, capacity);
  shared_offsets->push_back(offset);
  return input;
}

TRITONSERVER_Parameter ReadParameter(Reader& message) {
  TRITONSERVER_Parameter parameter;
  parameter.name = message.String();
  const uint8_t tag = message.U8();
  if (tag == 0) {
    parameter.type = TRITONSERVER_PARAMETER_BOOL;
    parameter.boolean = message.Bool();
  } else if (tag == 1) {
    parameter.type = TRITONSERVER_PARAMETER_INT;
    parameter.integer = message.I64();
  } else if (tag == 2) {
    parameter.type = TRITONSERVER_PARAMETER_STRING;
    parameter.text = message.String();
  } else {
    parameter.type = TRITONSERVER_PARAMETER_DOUBLE;
    parameter.real = message.F64();
  }
  return parameter;
}

TRITONBACKEND_Request* ReadRequest(
    const std::shared_ptr<std::vector<uint8_t>>& body, Reader& message, TRITONBACKEND_Model* model) {
  auto request = std::make_unique<TRITONBACKEND_Request>();
  request->channel = std::make_shared<ResponseChannel>(message.U32(), model);
  request->body = body;
  request->flags = message.U32();
  request->timeout_us = message.U64();
  request->has_text_correlation = message.Bool();
  if (request->has_text_correlation) request->text_correlation = message.String();
  else request->correlation = message.U64();
  request->id = message.String();
  for (uint32_t left = message.U32(); left > 0; left--) request->parameters.push_back(ReadParameter(message));
  request->outputs = message.Strings();
  for (uint32_t left = message.U32(); left > 0; left--) {
    request->inputs.push_back(ReadInput(message, &request->shared_offsets));
  }
  request->channel->is_cancelled = message.Bool();
  TheHost().Add(request->channel);
  return request.release();
}

}  // namespace

std::unique_ptr<Batch> ReadBatch(
    const std::shared_ptr<std::vector<uint8_t>>& body, Reader& message, TRITONBACKEND_Model* model) {
  auto batch = std::make_unique<Batch>();
  batch->instance = message.U32();
  batch->number = message.U32();
  for (uint32_t left = message.U32(); left > 0; left--) batch->requests.push_back(ReadRequest(body, message, model));
  return batch;
}

}  // namespace host
