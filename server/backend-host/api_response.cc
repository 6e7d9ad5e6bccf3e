/* Responses, their outputs, factories, and sequence states. Source: tritonbackend.h, "Response" and "State". */
#include <algorithm>

#include "host.h"

using host::ErrorOf;
using host::ResponseChannel;
using host::TheHost;
using host::Writer;

namespace {

/* Responses of one request that the client has not taken; its sender then waits. The server credits 32 at a time. */
constexpr uint32_t RESPONSE_WINDOW = 1024;

void GiveBack(host::Buffer& buffer) {
  if (buffer.is_shared) TheHost().output_memory.Return(buffer.region.offset);
  buffer.is_shared = false;
}

void Allocate(host::Buffer& buffer, uint64_t byte_size) {
  GiveBack(buffer);
  buffer.byte_size = byte_size;
  buffer.is_shared = TheHost().output_memory.Take(byte_size, &buffer.region);
  if (!buffer.is_shared) buffer.own.resize(byte_size);
}

void* BytesOf(host::Buffer& buffer) { return buffer.is_shared ? buffer.region.bytes : buffer.own.data(); }

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ",") + std::to_string(dim);
  return "[" + text + "]";
}

/* Why an output cannot be sent: "" when it can. The size of BYTES is open. */
std::string Problem(const TRITONBACKEND_Output& output) {
  uint64_t expected = TRITONSERVER_DataTypeByteSize(output.datatype);
  if (expected == 0) return "";
  for (const int64_t dim : output.shape) expected *= static_cast<uint64_t>(std::max<int64_t>(dim, 0));
  if (expected == output.buffer.byte_size) return "";
  return "output '" + output.name + "' of shape " + ShapeText(output.shape) + " needs " + std::to_string(expected) +
         " bytes, the backend gave " + std::to_string(output.buffer.byte_size);
}

void WriteTensor(Writer& message, TRITONBACKEND_Output& output) {
  message.String(output.name);
  message.U8(static_cast<uint8_t>(output.datatype));
  message.U32(static_cast<uint32_t>(output.shape.size()));
  for (const int64_t dim : output.shape) message.I64(dim);
  host::Buffer& buffer = output.buffer;
  if (!buffer.is_shared) {
    message.InlineData(buffer.own.data(), buffer.byte_size);
    return;
  }
  message.U8(host::SHARED);
  message.U64(buffer.region.offset);
  message.U64(buffer.region.capacity);
  message.U64(buffer.byte_size);
  buffer.is_shared = false;  // the server's from now on
}

void WriteError(Writer& message, TRITONSERVER_Error_Code code, const std::string& text) {
  message.U8(1);
  message.U8(static_cast<uint8_t>(code));
  message.String(text);
}

void AwaitCredit(ResponseChannel& channel) {
  std::unique_lock<std::mutex> lock(channel.mutex);
  channel.credited.wait(lock, [&] { return channel.uncredited < RESPONSE_WINDOW || channel.is_cancelled; });
  channel.uncredited++;
}

void WriteBody(
    Writer& message, ResponseChannel& channel, TRITONBACKEND_Response& response, const TRITONSERVER_Error* error) {
  std::string problem;
  for (const TRITONBACKEND_Output& output : response.outputs) {
    if (problem.empty()) problem = Problem(output);
  }
  if (error != nullptr) {
    WriteError(message, error->code, error->message);
  } else if (!problem.empty()) {
    WriteError(message, TRITONSERVER_ERROR_INTERNAL, problem);
  } else {
    std::lock_guard<std::mutex> lock(channel.mutex);
    message.U8(0);
    message.U32(static_cast<uint32_t>(response.outputs.size() + channel.states.size()));
    for (TRITONBACKEND_Output& output : response.outputs) WriteTensor(message, output);
    for (TRITONBACKEND_Output& state : channel.states) WriteTensor(message, state);
    channel.states.clear();
  }
  host::WriteParameters(message, response.parameters);
}

TRITONSERVER_Error* AddParameter(TRITONBACKEND_Response* response, TRITONSERVER_Parameter parameter) {
  response->parameters.push_back(std::move(parameter));
  return nullptr;
}

TRITONSERVER_Error* DescribeOutput(
    const TRITONBACKEND_Output& output, TRITONSERVER_DataType* datatype, const int64_t** shape, uint64_t* num_dims) {
  *datatype = output.datatype;
  *shape = output.shape.data();
  *num_dims = output.shape.size();
  return nullptr;
}

}  // namespace

namespace host {

ResponseChannel::~ResponseChannel() {
  TheHost().Remove(key);
  if (is_rescheduled && !is_final) {
    Writer message(RESCHEDULE);
    message.U32(key);
    TheHost().connection.Send(message);
  } else if (!is_final) {
    Writer message(RESPONSE);
    message.U32(key);
    message.U8(1);
    message.U8(1);
    WriteError(message, TRITONSERVER_ERROR_INTERNAL, "the backend ended the request without a final response");
    message.U32(0);
    TheHost().connection.Send(message);
  }
  Writer message(ENDED);
  message.U32(key);
  TheHost().connection.Send(message);
}

void WriteParameters(Writer& message, const std::vector<TRITONSERVER_Parameter>& parameters) {
  message.U32(static_cast<uint32_t>(parameters.size()));
  for (const TRITONSERVER_Parameter& parameter : parameters) {
    message.String(parameter.name);
    if (parameter.type == TRITONSERVER_PARAMETER_BOOL) {
      message.U8(0);
      message.U8(parameter.boolean ? 1 : 0);
    } else if (parameter.type == TRITONSERVER_PARAMETER_INT) {
      message.U8(1);
      message.I64(parameter.integer);
    } else if (parameter.type == TRITONSERVER_PARAMETER_DOUBLE) {
      message.U8(3);
      message.F64(parameter.real);
    } else {
      message.U8(2);
      message.String(parameter.text);
    }
  }
}

void SendResponse(
    ResponseChannel& channel, TRITONBACKEND_Response* response, bool is_final, const TRITONSERVER_Error* error) {
  if (is_final ? channel.is_final.exchange(true) : channel.is_final.load()) {
    LogLine(TRITONSERVER_LOG_WARN, __FILE__, __LINE__, "a response after the final one of its request is dropped");
    return;
  }
  if (!is_final) AwaitCredit(channel);
  Writer message(RESPONSE);
  message.U32(channel.key);
  message.U8(is_final ? 1 : 0);
  message.U8(response == nullptr ? 0 : 1);
  if (response != nullptr) WriteBody(message, channel, *response, error);
  TheHost().connection.Send(message);
}

}  // namespace host

TRITONSERVER_Error* TRITONBACKEND_ResponseFactoryNew(
    TRITONBACKEND_ResponseFactory** factory, TRITONBACKEND_Request* request) {
  *factory = new TRITONBACKEND_ResponseFactory{request->channel};
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory* factory) {
  delete factory;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseFactoryIsCancelled(
    TRITONBACKEND_ResponseFactory* factory, bool* is_cancelled) {
  *is_cancelled = factory->channel->is_cancelled;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory* factory, uint32_t flags) {
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0) {
    host::SendResponse(*factory->channel, nullptr, true, nullptr);
  }
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response, TRITONBACKEND_Request* request) {
  *response = new TRITONBACKEND_Response{request->channel, {}, {}};
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseNewFromFactory(
    TRITONBACKEND_Response** response, TRITONBACKEND_ResponseFactory* factory) {
  *response = new TRITONBACKEND_Response{factory->channel, {}, {}};
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response* response) {
  for (TRITONBACKEND_Output& output : response->outputs) GiveBack(output.buffer);
  delete response;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSetStringParameter(
    TRITONBACKEND_Response* response, const char* name, const char* value) {
  return AddParameter(response, {name, TRITONSERVER_PARAMETER_STRING, value});
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSetIntParameter(
    TRITONBACKEND_Response* response, const char* name, int64_t value) {
  return AddParameter(response, {name, TRITONSERVER_PARAMETER_INT, "", value});
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSetBoolParameter(
    TRITONBACKEND_Response* response, const char* name, bool value) {
  return AddParameter(response, {name, TRITONSERVER_PARAMETER_BOOL, "", 0, value});
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSetDoubleParameter(
    TRITONBACKEND_Response* response, const char* name, double value) {
  return AddParameter(response, {name, TRITONSERVER_PARAMETER_DOUBLE, "", 0, false, value});
}

TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(
    TRITONBACKEND_Response* response, TRITONBACKEND_Output** output, const char* name, TRITONSERVER_DataType datatype,
    const int64_t* shape, uint32_t num_dims) {
  if (response == nullptr) return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, "response was nullptr");
  TRITONBACKEND_Output& made = response->outputs.emplace_back();
  made.name = name;
  made.datatype = datatype;
  made.shape.assign(shape, shape + num_dims);
  *output = &made;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(
    TRITONBACKEND_Output* output, void** buffer, uint64_t byte_size, TRITONSERVER_MemoryType* type, int64_t* type_id) {
  Allocate(output->buffer, byte_size);
  *buffer = BytesOf(output->buffer);
  *type = TRITONSERVER_MEMORY_CPU;
  *type_id = 0;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_OutputBufferAttributes(
    TRITONBACKEND_Output* output, TRITONSERVER_BufferAttributes** attributes) {
  output->attributes.byte_size = output->buffer.byte_size;
  *attributes = &output->attributes;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSend(
    TRITONBACKEND_Response* response, uint32_t flags, TRITONSERVER_Error* error) {
  if (response == nullptr) return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, "response was nullptr");
  const bool is_final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  host::SendResponse(*response->channel, response, is_final, error);
  return TRITONBACKEND_ResponseDelete(response);
}

TRITONSERVER_Error* TRITONBACKEND_InferenceResponseOutputByName(
    TRITONBACKEND_Response* response, const char* name, TRITONSERVER_DataType* datatype, const int64_t** shape,
    uint64_t* num_dims) {
  for (const TRITONBACKEND_Output& output : response->outputs) {
    if (output.name == name) return DescribeOutput(output, datatype, shape, num_dims);
  }
  return ErrorOf(TRITONSERVER_ERROR_NOT_FOUND, std::string("Output name ") + name + " not found.");
}

TRITONSERVER_Error* TRITONBACKEND_InferenceResponseOutput(
    TRITONBACKEND_Response* response, uint32_t index, const char** name, TRITONSERVER_DataType* datatype,
    const int64_t** shape, uint64_t* num_dims) {
  const auto& outputs = response->outputs;
  if (index >= outputs.size()) return host::OutOfBounds("", index, "response", outputs.size(), "outputs");
  *name = outputs[index].name.c_str();
  return DescribeOutput(outputs[index], datatype, shape, num_dims);
}

TRITONSERVER_Error* TRITONBACKEND_StateNew(
    TRITONBACKEND_State** state, TRITONBACKEND_Request* request, const char* name, TRITONSERVER_DataType datatype,
    const int64_t* shape, uint32_t num_dims) {
  const TRITONBACKEND_Model& model = *request->channel->model;
  if (model.states.empty()) {
    const std::string text = std::string("unable to add state '") + name +
                             "'. State configuration is missing for model '" + model.name + "'.";
    return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, text);
  }
  if (model.states.count(name) == 0) {
    return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, std::string("state '") + name + "' is not a valid state name.");
  }
  request->states.push_back(std::make_unique<TRITONBACKEND_State>());
  *state = request->states.back().get();
  (*state)->channel = request->channel;
  (*state)->output.name = name;
  (*state)->output.datatype = datatype;
  (*state)->output.shape.assign(shape, shape + num_dims);
  return nullptr;
}

/* States are small, and may be updated more than once: their bytes are never shared. */
TRITONSERVER_Error* TRITONBACKEND_StateBuffer(
    TRITONBACKEND_State* state, void** buffer, uint64_t byte_size, TRITONSERVER_MemoryType* type, int64_t* type_id) {
  state->output.buffer.own.resize(byte_size);
  state->output.buffer.byte_size = byte_size;
  *buffer = state->output.buffer.own.data();
  *type = TRITONSERVER_MEMORY_CPU;
  *type_id = 0;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_StateBufferAttributes(
    TRITONBACKEND_State* state, TRITONSERVER_BufferAttributes** attributes) {
  return TRITONBACKEND_OutputBufferAttributes(&state->output, attributes);
}

TRITONSERVER_Error* TRITONBACKEND_StateUpdate(TRITONBACKEND_State* state) {
  const std::string problem = Problem(state->output);
  if (!problem.empty()) return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, problem);
  const std::shared_ptr<ResponseChannel> channel = state->channel.lock();
  if (channel == nullptr || channel->is_final) {
    const std::string text = "state '" + state->output.name + "' was updated after the final response of its request";
    return ErrorOf(TRITONSERVER_ERROR_UNAVAILABLE, text);
  }
  std::lock_guard<std::mutex> lock(channel->mutex);
  auto& states = channel->states;
  const auto same = std::find_if(
      states.begin(), states.end(), [&](const auto& one) { return one.name == state->output.name; });
  if (same == states.end()) states.push_back(state->output);
  else *same = state->output;
  return nullptr;
}
