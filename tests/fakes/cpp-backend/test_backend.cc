/*
 * A backend for the tests of the backend host, written from the API alone. The parameter `mode` of a model says what it
 * does. Its tensors are X and Y, of any type, and the first INT32 of X may ask for a fault.
 */
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "triton_abi.h"

#define RETURN_IF_ERROR(CALL)                            \
  do {                                                   \
    TRITONSERVER_Error* error_of_call = (CALL);          \
    if (error_of_call != nullptr) return error_of_call;  \
  } while (false)

namespace {

constexpr int32_t FAIL_BATCH = 7;
constexpr int32_t LET_GO = 9;
constexpr int32_t WRONG_SIZE = 11;
constexpr int32_t CRASH = 13;

struct Model {
  std::string mode;
  std::atomic<int> num_instances{0};
  TRITONSERVER_MetricFamily* family = nullptr;
  TRITONSERVER_Metric* metric = nullptr;
};

struct Instance {
  Model* model;
  std::map<std::string, int32_t> sums;
};

struct Tensor {
  TRITONSERVER_DataType datatype;
  const int64_t* shape;
  uint32_t num_dims;
  uint64_t byte_size;
  const void* data;
};

uint64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TRITONSERVER_Error* Refuse(const std::string& text) {
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, text.c_str());
}

/* The text of a string parameter in the configuration, or "". */
std::string ParameterOf(const std::string& config, const std::string& name) {
  const std::string start = "\"" + name + "\":{\"string_value\":\"";
  const size_t at = config.find(start);
  if (at == std::string::npos) return "";
  const size_t from = at + start.size();
  return config.substr(from, config.find('"', from) - from);
}

TRITONSERVER_Error* ReadX(TRITONBACKEND_Request* request, Tensor* tensor) {
  TRITONBACKEND_Input* input;
  RETURN_IF_ERROR(TRITONBACKEND_RequestInput(request, "X", &input));
  uint32_t num_buffers;
  RETURN_IF_ERROR(TRITONBACKEND_InputProperties(
      input, nullptr, &tensor->datatype, &tensor->shape, &tensor->num_dims, &tensor->byte_size, &num_buffers));
  if (num_buffers != 1) return Refuse("X has several buffers");
  TRITONSERVER_MemoryType type;
  int64_t type_id;
  return TRITONBACKEND_InputBuffer(input, 0, &tensor->data, &tensor->byte_size, &type, &type_id);
}

int32_t FirstOf(const Tensor& tensor) {
  int32_t first = 0;
  if (tensor.datatype == TRITONSERVER_TYPE_INT32 && tensor.byte_size >= 4) std::memcpy(&first, tensor.data, 4);
  return first;
}

TRITONSERVER_Error* AddY(TRITONBACKEND_Response* response, const Tensor& like, const void* data, uint64_t byte_size) {
  TRITONBACKEND_Output* output;
  RETURN_IF_ERROR(TRITONBACKEND_ResponseOutput(response, &output, "Y", like.datatype, like.shape, like.num_dims));
  void* buffer;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t type_id = 0;
  RETURN_IF_ERROR(TRITONBACKEND_OutputBuffer(output, &buffer, byte_size, &type, &type_id));
  std::memcpy(buffer, data, byte_size);
  return nullptr;
}

std::string CorrelationOf(TRITONBACKEND_Request* request) {
  uint64_t number = 0;
  TRITONSERVER_Error* error = TRITONBACKEND_RequestCorrelationId(request, &number);
  if (error == nullptr) return std::to_string(number);
  TRITONSERVER_ErrorDelete(error);
  const char* text = "";
  error = TRITONBACKEND_RequestCorrelationIdString(request, &text);
  TRITONSERVER_ErrorDelete(error);
  return std::string("'") + text + "'";
}

/* What the request says beside its tensors, one word each. */
std::string Seen(TRITONBACKEND_Request* request) {
  const char* id;
  uint32_t flags;
  uint32_t count;
  uint64_t timeout;
  TRITONBACKEND_RequestId(request, &id);
  TRITONBACKEND_RequestFlags(request, &flags);
  TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, &timeout);
  TRITONBACKEND_RequestParameterCount(request, &count);
  std::string text = std::string(id) + " " + CorrelationOf(request) + " " + std::to_string(flags) + " " + std::to_string(timeout);
  for (uint32_t i = 0; i < count; i++) {
    const char* key;
    TRITONSERVER_ParameterType type;
    const void* value;
    TRITONBACKEND_RequestParameter(request, i, &key, &type, &value);
    text += std::string(" ") + key + "=" + TRITONSERVER_ParameterTypeString(type) + ":";
    if (type == TRITONSERVER_PARAMETER_STRING) text += static_cast<const char*>(value);
    else if (type == TRITONSERVER_PARAMETER_INT) text += std::to_string(*static_cast<const int64_t*>(value));
    else if (type == TRITONSERVER_PARAMETER_BOOL) text += *static_cast<const bool*>(value) ? "true" : "false";
    else text += std::to_string(*static_cast<const double*>(value));
  }
  return text;
}

TRITONSERVER_Error* Echo(TRITONBACKEND_Request* request, const Instance& instance, const Tensor& x) {
  TRITONBACKEND_Response* response;
  RETURN_IF_ERROR(TRITONBACKEND_ResponseNew(&response, request));
  RETURN_IF_ERROR(AddY(response, x, x.data, FirstOf(x) == WRONG_SIZE ? x.byte_size - 1 : x.byte_size));
  TRITONBACKEND_ResponseSetStringParameter(response, "seen", Seen(request).c_str());
  TRITONBACKEND_ResponseSetIntParameter(response, "instances", instance.model->num_instances);
  TRITONBACKEND_ResponseSetBoolParameter(response, "yes", true);
  TRITONBACKEND_ResponseSetDoubleParameter(response, "half", 0.5);
  return TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, nullptr);
}

/* As many responses as the first number of X says, from a thread that outlives the execution. */
void Repeat(TRITONBACKEND_ResponseFactory* factory, TRITONBACKEND_ModelInstance* instance, int32_t count) {
  const int64_t shape[] = {1};
  for (int32_t i = 0; i < count; i++) {
    const uint64_t start = Now();
    TRITONBACKEND_Response* response;
    TRITONBACKEND_ResponseNewFromFactory(&response, factory);
    const Tensor like{TRITONSERVER_TYPE_INT32, shape, 1, 4, &i};
    AddY(response, like, &i, 4);
    TRITONBACKEND_ResponseSend(response, 0, nullptr);
    TRITONBACKEND_ModelInstanceResponseStatistics* statistics;
    TRITONBACKEND_ModelInstanceResponseStatisticsNew(&statistics);
    TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(statistics, instance);
    TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(statistics, factory);
    TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(statistics, start);
    TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(statistics, Now());
    TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(statistics, Now());
    TRITONBACKEND_ModelInstanceReportResponseStatistics(statistics);
    TRITONBACKEND_ModelInstanceResponseStatisticsDelete(statistics);
  }
  TRITONBACKEND_ResponseFactorySendFlags(factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  TRITONBACKEND_ResponseFactoryDelete(factory);
}

/* The sum of X over its sequence. */
TRITONSERVER_Error* Accumulate(TRITONBACKEND_Request* request, Instance& instance, const Tensor& x) {
  uint32_t flags;
  TRITONBACKEND_RequestFlags(request, &flags);
  int32_t& sum = instance.sums[CorrelationOf(request)];
  if ((flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0) sum = 0;
  sum += FirstOf(x);
  TRITONBACKEND_Response* response;
  RETURN_IF_ERROR(TRITONBACKEND_ResponseNew(&response, request));
  RETURN_IF_ERROR(AddY(response, x, &sum, sizeof sum));
  return TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, nullptr);
}

/* Y is X plus the state, which becomes Y. */
TRITONSERVER_Error* UseState(TRITONBACKEND_Request* request, const Tensor& x) {
  TRITONBACKEND_Input* input;
  RETURN_IF_ERROR(TRITONBACKEND_RequestInput(request, "S_IN", &input));
  const void* data;
  uint64_t byte_size;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t type_id = 0;
  RETURN_IF_ERROR(TRITONBACKEND_InputBuffer(input, 0, &data, &byte_size, &type, &type_id));
  const int32_t sum = FirstOf(x) + *static_cast<const int32_t*>(data);
  TRITONBACKEND_State* state;
  RETURN_IF_ERROR(TRITONBACKEND_StateNew(&state, request, "S_OUT", x.datatype, x.shape, x.num_dims));
  void* buffer;
  RETURN_IF_ERROR(TRITONBACKEND_StateBuffer(state, &buffer, sizeof sum, &type, &type_id));
  std::memcpy(buffer, &sum, sizeof sum);
  RETURN_IF_ERROR(TRITONBACKEND_StateUpdate(state));
  TRITONBACKEND_Response* response;
  RETURN_IF_ERROR(TRITONBACKEND_ResponseNew(&response, request));
  RETURN_IF_ERROR(AddY(response, x, &sum, sizeof sum));
  return TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, nullptr);
}

/* Counts down from X to 0, one response for each execution of the request. As Triton's test backend of this kind, it
   releases the request before it sends the response. */
TRITONSERVER_Error* CountDown(TRITONBACKEND_Request* request, const Tensor& x) {
  uint32_t flags;
  TRITONBACKEND_RequestFlags(request, &flags);
  static std::atomic<int32_t> left{0};
  if ((flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0) left = FirstOf(x);
  const int32_t value = --left;
  const bool is_last = value <= 0;
  TRITONBACKEND_Response* response;
  RETURN_IF_ERROR(TRITONBACKEND_ResponseNew(&response, request));
  RETURN_IF_ERROR(AddY(response, x, &value, sizeof value));
  RETURN_IF_ERROR(TRITONBACKEND_RequestRelease(
      request, is_last ? TRITONSERVER_REQUEST_RELEASE_ALL : TRITONSERVER_REQUEST_RELEASE_RESCHEDULE));
  return TRITONBACKEND_ResponseSend(response, is_last ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0, nullptr);
}

/* Works until the client gives up. */
TRITONSERVER_Error* AwaitCancellation(TRITONBACKEND_Request* request) {
  bool is_cancelled = false;
  while (!is_cancelled) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    RETURN_IF_ERROR(TRITONBACKEND_RequestIsCancelled(request, &is_cancelled));
  }
  TRITONSERVER_LogMessage(TRITONSERVER_LOG_WARN, __FILE__, 1, "saw the cancellation");
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_CANCELLED, "cancelled by its client");
}

TRITONSERVER_Error* Serve(TRITONBACKEND_Request* request, TRITONBACKEND_ModelInstance* handle, Instance& instance, const Tensor& x) {
  const std::string& mode = instance.model->mode;
  if (FirstOf(x) == LET_GO) return nullptr;
  if (FirstOf(x) == CRASH) std::abort();
  if (mode == "accumulate") return Accumulate(request, instance, x);
  if (mode == "state") return UseState(request, x);
  if (mode == "slow") return AwaitCancellation(request);
  if (mode != "repeat") return Echo(request, instance, x);
  TRITONBACKEND_ResponseFactory* factory;
  RETURN_IF_ERROR(TRITONBACKEND_ResponseFactoryNew(&factory, request));
  std::thread(Repeat, factory, handle, FirstOf(x)).detach();
  return nullptr;
}

void Answer(TRITONBACKEND_Request* request, TRITONBACKEND_ModelInstance* handle, Instance& instance) {
  Tensor x;
  TRITONSERVER_Error* error = ReadX(request, &x);
  if (error == nullptr && instance.model->mode == "count down") {
    TRITONSERVER_ErrorDelete(CountDown(request, x));
    return;
  }
  if (error == nullptr) error = Serve(request, handle, instance, x);
  if (error != nullptr) {
    TRITONBACKEND_Response* response;
    TRITONBACKEND_ResponseNew(&response, request);
    TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
    TRITONSERVER_ErrorDelete(error);
  }
  TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
}

/* Gives the model the tensors that its configuration lacks. */
TRITONSERVER_Error* Complete(TRITONBACKEND_Model* handle, const std::string& config) {
  bool is_wanted = false;
  RETURN_IF_ERROR(TRITONBACKEND_ModelAutoCompleteConfig(handle, &is_wanted));
  const size_t inputs = config.find("\"input\":[]");
  if (!is_wanted || inputs == std::string::npos) return nullptr;
  const std::string tensor = "[{\"name\":\"?\",\"data_type\":\"TYPE_INT32\",\"dims\":[-1]}]";
  std::string completed = config;
  for (const auto& [key, name] : {std::pair{"\"input\":", "X"}, {"\"output\":", "Y"}}) {
    std::string own = tensor;
    own.replace(own.find('?'), 1, name);
    const std::string empty = std::string(key) + "[]";
    completed.replace(completed.find(empty), empty.size(), key + own);
  }
  TRITONSERVER_Message* message;
  RETURN_IF_ERROR(TRITONSERVER_MessageNewFromSerializedJson(&message, completed.data(), completed.size()));
  RETURN_IF_ERROR(TRITONBACKEND_ModelSetConfig(handle, 1, message));
  return TRITONSERVER_MessageDelete(message);
}

TRITONSERVER_Error* CountModel(Model* model) {
  RETURN_IF_ERROR(TRITONSERVER_MetricFamilyNew(
      &model->family, TRITONSERVER_METRIC_KIND_COUNTER, "test_batches_total", "Batches of the test backend"));
  const std::unique_ptr<TRITONSERVER_Parameter, void (*)(TRITONSERVER_Parameter*)> label(
      TRITONSERVER_ParameterNew("mode", TRITONSERVER_PARAMETER_STRING, model->mode.c_str()), TRITONSERVER_ParameterDelete);
  const TRITONSERVER_Parameter* labels[] = {label.get()};
  return TRITONSERVER_MetricNew(&model->metric, model->family, labels, 1);
}

Instance* InstanceOf(TRITONBACKEND_ModelInstance* handle) {
  void* state;
  TRITONBACKEND_ModelInstanceState(handle, &state);
  return static_cast<Instance*>(state);
}

}  // namespace

extern "C" {

TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  TRITONSERVER_Message* message;
  RETURN_IF_ERROR(TRITONBACKEND_BackendConfig(backend, &message));
  const char* text;
  size_t size;
  RETURN_IF_ERROR(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  return TRITONSERVER_LogMessage(TRITONSERVER_LOG_WARN, __FILE__, 2, text);
}

TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* handle) {
  TRITONSERVER_Message* message;
  RETURN_IF_ERROR(TRITONBACKEND_ModelConfig(handle, 1, &message));
  const char* text;
  size_t size;
  RETURN_IF_ERROR(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  const std::string config(text, size);
  RETURN_IF_ERROR(TRITONSERVER_MessageDelete(message));
  auto* model = new Model();
  model->mode = ParameterOf(config, "mode");
  RETURN_IF_ERROR(TRITONBACKEND_ModelSetState(handle, model));
  if (model->mode == "refuse") return Refuse("planned refusal");
  RETURN_IF_ERROR(CountModel(model));
  return Complete(handle, config);
}

TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* handle) {
  void* state;
  RETURN_IF_ERROR(TRITONBACKEND_ModelState(handle, &state));
  auto* model = static_cast<Model*>(state);
  TRITONSERVER_MetricDelete(model->metric);
  TRITONSERVER_MetricFamilyDelete(model->family);
  delete model;
  return TRITONSERVER_LogMessage(TRITONSERVER_LOG_WARN, __FILE__, 3, "model finalized");
}

TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* handle) {
  TRITONBACKEND_Model* owner;
  RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceModel(handle, &owner));
  void* state;
  RETURN_IF_ERROR(TRITONBACKEND_ModelState(owner, &state));
  auto* model = static_cast<Model*>(state);
  if (model->mode == "refuse instance") return Refuse("planned refusal of an instance");
  model->num_instances++;
  return TRITONBACKEND_ModelInstanceSetState(handle, new Instance{model, {}});
}

TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* handle) {
  InstanceOf(handle)->model->num_instances--;
  delete InstanceOf(handle);
  return nullptr;
}

TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* handle, TRITONBACKEND_Request** requests, uint32_t count) {
  const uint64_t start = Now();
  Instance& instance = *InstanceOf(handle);
  TRITONSERVER_MetricIncrement(instance.model->metric, 1);
  for (uint32_t i = 0; i < count; i++) {
    Tensor x;
    RETURN_IF_ERROR(ReadX(requests[i], &x));
    if (FirstOf(x) == FAIL_BATCH) return Refuse("planned failure of a batch");
  }
  for (uint32_t i = 0; i < count; i++) Answer(requests[i], handle, instance);
  return TRITONBACKEND_ModelInstanceReportBatchStatistics(handle, count, start, start, Now(), Now());
}
}
