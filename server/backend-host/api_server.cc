/* Functions of tritonserver.h that backends call: names of values, errors, messages, buffer attributes, the log. */
#include <array>
#include <string>

#include "host.h"

using host::ErrorOf;

namespace {

struct DataType {
  const char* name;
  uint32_t byte_size;
};

/* By Triton's number. Elements of BYTES have no common size. */
constexpr std::array<DataType, 15> DATA_TYPES = {{
    {"<invalid>", 0}, {"BOOL", 1},  {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8}, {"INT8", 1},  {"INT16", 2},
    {"INT32", 4},     {"INT64", 8}, {"FP16", 2},  {"FP32", 4},   {"FP64", 8},   {"BYTES", 0},  {"BF16", 2},
}};

/* By the number of the code. */
constexpr std::array<const char*, 8> ERROR_CODES = {
    "Unknown", "Internal", "Not found", "Invalid argument", "Unavailable", "Unsupported", "Already exists", "Cancelled"};

const DataType& DataTypeOf(TRITONSERVER_DataType datatype) {
  const auto number = static_cast<size_t>(datatype);
  return DATA_TYPES[number < DATA_TYPES.size() ? number : 0];
}

}  // namespace

TRITONSERVER_Error* TRITONSERVER_ApiVersion(uint32_t* major, uint32_t* minor) {
  *major = TRITONSERVER_API_VERSION_MAJOR;
  *minor = TRITONSERVER_API_VERSION_MINOR;
  return nullptr;
}

const char* TRITONSERVER_DataTypeString(TRITONSERVER_DataType datatype) { return DataTypeOf(datatype).name; }
uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType datatype) { return DataTypeOf(datatype).byte_size; }

TRITONSERVER_DataType TRITONSERVER_StringToDataType(const char* name) {
  for (size_t number = 0; number < DATA_TYPES.size(); number++) {
    if (std::string(name) == DATA_TYPES[number].name) return static_cast<TRITONSERVER_DataType>(number);
  }
  return TRITONSERVER_TYPE_INVALID;
}

const char* TRITONSERVER_MemoryTypeString(TRITONSERVER_MemoryType type) {
  switch (type) {
    case TRITONSERVER_MEMORY_CPU: return "CPU";
    case TRITONSERVER_MEMORY_CPU_PINNED: return "CPU_PINNED";
    case TRITONSERVER_MEMORY_GPU: return "GPU";
  }
  return "<invalid>";
}

const char* TRITONSERVER_ParameterTypeString(TRITONSERVER_ParameterType type) {
  switch (type) {
    case TRITONSERVER_PARAMETER_STRING: return "STRING";
    case TRITONSERVER_PARAMETER_INT: return "INT";
    case TRITONSERVER_PARAMETER_BOOL: return "BOOL";
    case TRITONSERVER_PARAMETER_DOUBLE: return "DOUBLE";
    case TRITONSERVER_PARAMETER_BYTES: return "BYTES";
  }
  return "<invalid>";
}

const char* TRITONSERVER_InstanceGroupKindString(TRITONSERVER_InstanceGroupKind kind) {
  switch (kind) {
    case TRITONSERVER_INSTANCEGROUPKIND_AUTO: return "AUTO";
    case TRITONSERVER_INSTANCEGROUPKIND_CPU: return "CPU";
    case TRITONSERVER_INSTANCEGROUPKIND_GPU: return "GPU";
    case TRITONSERVER_INSTANCEGROUPKIND_MODEL: return "MODEL";
  }
  return "<invalid>";
}

TRITONSERVER_Parameter* TRITONSERVER_ParameterNew(
    const char* name, TRITONSERVER_ParameterType type, const void* value) {
  auto* made = new TRITONSERVER_Parameter{name, type, ""};
  if (type == TRITONSERVER_PARAMETER_STRING) made->text = static_cast<const char*>(value);
  else if (type == TRITONSERVER_PARAMETER_INT) made->integer = *static_cast<const int64_t*>(value);
  else if (type == TRITONSERVER_PARAMETER_BOOL) made->boolean = *static_cast<const bool*>(value);
  else if (type == TRITONSERVER_PARAMETER_DOUBLE) made->real = *static_cast<const double*>(value);
  return made;
}

TRITONSERVER_Parameter* TRITONSERVER_ParameterBytesNew(const char* name, const void* bytes, uint64_t size) {
  return new TRITONSERVER_Parameter{
      name, TRITONSERVER_PARAMETER_BYTES, std::string(static_cast<const char*>(bytes), size)};
}

void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter* parameter) { delete parameter; }

/* The server filters: its levels can change while it runs. */
bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel) { return true; }

TRITONSERVER_Error* TRITONSERVER_LogMessage(
    TRITONSERVER_LogLevel level, const char* file, int line, const char* message) {
  host::LogLine(level, file, static_cast<uint32_t>(line), message);
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* message) {
  return ErrorOf(code, message == nullptr ? "" : message);
}

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error) { delete error; }
TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error* error) { return error->code; }
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error) { return error->message.c_str(); }

const char* TRITONSERVER_ErrorCodeString(TRITONSERVER_Error* error) {
  const auto number = static_cast<size_t>(error->code);
  return number < ERROR_CODES.size() ? ERROR_CODES[number] : "<invalid code>";
}

TRITONSERVER_Error* TRITONSERVER_MessageNewFromSerializedJson(
    TRITONSERVER_Message** message, const char* base, size_t byte_size) {
  *message = new TRITONSERVER_Message{std::string(base, byte_size)};
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message* message) {
  delete message;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(
    TRITONSERVER_Message* message, const char** base, size_t* byte_size) {
  *base = message->json.c_str();
  *byte_size = message->json.size();
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesNew(TRITONSERVER_BufferAttributes** attributes) {
  *attributes = new TRITONSERVER_BufferAttributes();
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesDelete(TRITONSERVER_BufferAttributes* attributes) {
  delete attributes;
  return nullptr;
}

/* Each field has a function that sets it and one that reads it. */
#define BUFFER_FIELD(NAME, TYPE, FIELD)                                                                            \
  TRITONSERVER_Error* TRITONSERVER_BufferAttributesSet##NAME(TRITONSERVER_BufferAttributes* attributes, TYPE value) { \
    attributes->FIELD = value;                                                                                     \
    return nullptr;                                                                                                \
  }                                                                                                                \
  TRITONSERVER_Error* TRITONSERVER_BufferAttributes##NAME(TRITONSERVER_BufferAttributes* attributes, TYPE* value) {   \
    *value = attributes->FIELD;                                                                                    \
    return nullptr;                                                                                                \
  }

BUFFER_FIELD(MemoryTypeId, int64_t, type_id)
BUFFER_FIELD(MemoryType, TRITONSERVER_MemoryType, type)
BUFFER_FIELD(ByteSize, size_t, byte_size)
BUFFER_FIELD(CudaIpcHandle, void*, cuda_ipc_handle)
#undef BUFFER_FIELD

/* No request has a trace here, so a backend has none to report to. */
TRITONSERVER_Error* TRITONSERVER_InferenceTraceReportActivity(TRITONSERVER_InferenceTrace*, uint64_t, const char*) {
  return ErrorOf(TRITONSERVER_ERROR_UNSUPPORTED, "requests have no trace in a backend's process");
}
