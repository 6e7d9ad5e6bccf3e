/* Requests and their inputs, as backends see them. Source: tritonbackend.h, "Request" and "Input". */
#include <algorithm>

#include "host.h"

using host::ErrorOf;

namespace {

std::string Prefix(const TRITONBACKEND_Request* request) {
  return request->id.empty() ? "[request id: <id_unknown>] " : "[request id: " + request->id + "] ";
}

TRITONSERVER_Error* NoIndex(const TRITONBACKEND_Request* request, uint32_t index, size_t size, const char* items) {
  return host::OutOfBounds(Prefix(request), index, "request", size, items);
}

template <typename T>
void Set(T* target, T value) {
  if (target != nullptr) *target = value;
}

TRITONSERVER_Error* NotFoundInput(const TRITONBACKEND_Request* request, const char* name) {
  return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, Prefix(request) + "unknown request input name " + name);
}

}  // namespace

TRITONSERVER_Error* TRITONBACKEND_InputProperties(
    TRITONBACKEND_Input* input, const char** name, TRITONSERVER_DataType* datatype, const int64_t** shape,
    uint32_t* num_dims, uint64_t* byte_size, uint32_t* num_buffers) {
  Set(name, input->name.c_str());
  Set(datatype, input->datatype);
  Set(shape, static_cast<const int64_t*>(input->shape.data()));
  Set(num_dims, static_cast<uint32_t>(input->shape.size()));
  Set(byte_size, input->byte_size);
  Set(num_buffers, 1U);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_InputPropertiesForHostPolicy(
    TRITONBACKEND_Input* input, const char*, const char** name, TRITONSERVER_DataType* datatype, const int64_t** shape,
    uint32_t* num_dims, uint64_t* byte_size, uint32_t* num_buffers) {
  return TRITONBACKEND_InputProperties(input, name, datatype, shape, num_dims, byte_size, num_buffers);
}

TRITONSERVER_Error* TRITONBACKEND_InputBuffer(
    TRITONBACKEND_Input* input, uint32_t index, const void** buffer, uint64_t* byte_size,
    TRITONSERVER_MemoryType* type, int64_t* type_id) {
  *buffer = nullptr;
  *byte_size = 0;
  if (index > 0) return host::OutOfBounds("", index, "input '" + input->name + "'", 1, "buffers");
  *buffer = input->data;
  *byte_size = input->byte_size;
  *type = TRITONSERVER_MEMORY_CPU;
  *type_id = 0;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_InputBufferForHostPolicy(
    TRITONBACKEND_Input* input, const char*, uint32_t index, const void** buffer, uint64_t* byte_size,
    TRITONSERVER_MemoryType* type, int64_t* type_id) {
  return TRITONBACKEND_InputBuffer(input, index, buffer, byte_size, type, type_id);
}

TRITONSERVER_Error* TRITONBACKEND_InputBufferAttributes(
    TRITONBACKEND_Input* input, uint32_t index, const void** buffer, TRITONSERVER_BufferAttributes** attributes) {
  if (index > 0) return host::OutOfBounds("", index, "input '" + input->name + "'", 1, "buffers");
  input->attributes.byte_size = input->byte_size;
  *buffer = input->data;
  *attributes = &input->attributes;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestId(TRITONBACKEND_Request* request, const char** id) {
  *id = request->id.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request* request, bool* is_cancelled) {
  *is_cancelled = request->channel->is_cancelled;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request* request, uint64_t* id) {
  if (request->has_text_correlation) {
    const std::string text = Prefix(request) + "given request's correlation id is not an unsigned int";
    return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, text);
  }
  *id = request->correlation;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request* request, const char** id) {
  if (!request->has_text_correlation) {
    return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, Prefix(request) + "given request's correlation id is not a string");
  }
  *id = request->text_correlation.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_InferenceRequestTimeoutMicroseconds(
    TRITONBACKEND_Request* request, uint64_t* timeout) {
  *timeout = request->timeout_us;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestFlags(TRITONBACKEND_Request* request, uint32_t* flags) {
  *flags = request->flags;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request* request, uint32_t* count) {
  *count = static_cast<uint32_t>(request->parameters.size());
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestParameter(
    TRITONBACKEND_Request* request, uint32_t index, const char** key, TRITONSERVER_ParameterType* type,
    const void** value) {
  if (index >= request->parameters.size()) {
    return host::OutOfBounds("", index, "request", request->parameters.size(), "parameters");
  }
  const TRITONSERVER_Parameter& parameter = request->parameters[index];
  *key = parameter.name.c_str();
  *type = parameter.type;
  if (parameter.type == TRITONSERVER_PARAMETER_STRING) *value = parameter.text.c_str();
  else if (parameter.type == TRITONSERVER_PARAMETER_INT) *value = &parameter.integer;
  else if (parameter.type == TRITONSERVER_PARAMETER_BOOL) *value = &parameter.boolean;
  else *value = &parameter.real;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request* request, uint32_t* count) {
  *count = static_cast<uint32_t>(request->inputs.size());
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestInputName(TRITONBACKEND_Request* request, uint32_t index, const char** name) {
  *name = nullptr;
  if (index >= request->inputs.size()) return NoIndex(request, index, request->inputs.size(), "inputs");
  *name = request->inputs[index].name.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestInput(
    TRITONBACKEND_Request* request, const char* name, TRITONBACKEND_Input** input) {
  const auto found = std::find_if(
      request->inputs.begin(), request->inputs.end(), [&](const auto& one) { return one.name == name; });
  *input = found == request->inputs.end() ? nullptr : &*found;
  return *input == nullptr ? NotFoundInput(request, name) : nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestInputByIndex(
    TRITONBACKEND_Request* request, uint32_t index, TRITONBACKEND_Input** input) {
  if (index >= request->inputs.size()) return NoIndex(request, index, request->inputs.size(), "inputs");
  *input = &request->inputs[index];
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request* request, uint32_t* count) {
  *count = static_cast<uint32_t>(request->outputs.size());
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request* request, uint32_t index, const char** name) {
  *name = nullptr;
  if (index >= request->outputs.size()) return NoIndex(request, index, request->outputs.size(), "requested outputs");
  *name = request->outputs[index].c_str();
  return nullptr;
}

/* Outputs are written to host memory, whatever the client asked for: the server copies where it must. */
TRITONSERVER_Error* TRITONBACKEND_RequestOutputBufferProperties(
    TRITONBACKEND_Request*, const char*, size_t*, TRITONSERVER_MemoryType* type, int64_t* type_id) {
  *type = TRITONSERVER_MEMORY_CPU;
  *type_id = 0;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestTrace(TRITONBACKEND_Request*, TRITONSERVER_InferenceTrace** trace) {
  *trace = nullptr;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request, uint32_t flags) {
  const bool goes_back = (flags & TRITONSERVER_REQUEST_RELEASE_RESCHEDULE) != 0;
  if (!goes_back && (flags & TRITONSERVER_REQUEST_RELEASE_ALL) == 0) {
    return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, Prefix(request) + "no release flag was given");
  }
  if (goes_back) request->channel->is_rescheduled = true;
  if (!request->shared_offsets.empty()) {
    host::Writer message(host::RELEASED);
    message.U32(static_cast<uint32_t>(request->shared_offsets.size()));
    for (const uint64_t offset : request->shared_offsets) message.U64(offset);
    host::TheHost().connection.Send(message);
  }
  delete request;
  return nullptr;
}
