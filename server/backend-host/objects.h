/* The objects behind the API's opaque pointers. Only fields; the functions are in the files api_*.cc. */
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "shared_memory.h"
#include "triton_abi.h"

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string message;
};

struct TRITONSERVER_Message {
  std::string json;
};

struct TRITONSERVER_Parameter {
  std::string name;
  TRITONSERVER_ParameterType type;
  std::string text;
  int64_t integer = 0;
  bool boolean = false;
  double real = 0;
};

struct TRITONSERVER_BufferAttributes {
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t type_id = 0;
  size_t byte_size = 0;
  void* cuda_ipc_handle = nullptr;
};

struct TRITONSERVER_Server {};
struct TRITONBACKEND_MemoryManager {};

struct TRITONBACKEND_BackendAttribute {
  bool loads_in_parallel = false;
};

struct TRITONBACKEND_Backend {
  std::string name;
  TRITONSERVER_Message config;
  std::string folder;
  TRITONBACKEND_ExecutionPolicy policy = TRITONBACKEND_EXECUTION_BLOCKING;
  TRITONBACKEND_MemoryManager memory;
  TRITONBACKEND_BackendAttribute attributes;
  void* state = nullptr;
};

struct TRITONBACKEND_Model {
  TRITONBACKEND_Backend* backend = nullptr;
  TRITONSERVER_Server server;
  std::string name;
  uint64_t version = 0;
  std::string folder;
  std::string config;
  bool wants_auto_complete = false;
  bool is_decoupled = false;
  /* Output names of the sequence states that the configuration declares. */
  std::set<std::string> states;
  void* state = nullptr;
};

struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model = nullptr;
  uint32_t number = 0;
  std::string name;
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU;
  int32_t device_id = 0;
  TRITONSERVER_Message host_policy;
  std::vector<std::string> profiles;
  void* state = nullptr;
};

namespace host {

/* Bytes of an output or a state: in shared memory where they are large, else here. */
struct Buffer {
  std::vector<uint8_t> own;
  OutputMemory::Region region;
  uint64_t byte_size = 0;
  bool is_shared = false;
};

}  // namespace host

struct TRITONBACKEND_Output {
  std::string name;
  TRITONSERVER_DataType datatype = TRITONSERVER_TYPE_INVALID;
  std::vector<int64_t> shape;
  host::Buffer buffer;
  TRITONSERVER_BufferAttributes attributes;
};

struct TRITONBACKEND_Input {
  std::string name;
  TRITONSERVER_DataType datatype = TRITONSERVER_TYPE_INVALID;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  uint64_t byte_size = 0;
  TRITONSERVER_BufferAttributes attributes;
};

namespace host {

/*
 * The way back to the client of one request. Shared by the request, its factories and its responses: when the last of
 * them goes and no final response was sent, the client gets an error.
 */
struct ResponseChannel {
  explicit ResponseChannel(uint32_t request_key, TRITONBACKEND_Model* owner) : key(request_key), model(owner) {}
  ~ResponseChannel();
  ResponseChannel(const ResponseChannel&) = delete;
  ResponseChannel& operator=(const ResponseChannel&) = delete;

  const uint32_t key;
  TRITONBACKEND_Model* const model;
  std::atomic<bool> is_cancelled{false};
  std::atomic<bool> is_final{false};
  /* Goes back to the scheduler, once the responses that the backend has made before are sent. */
  std::atomic<bool> is_rescheduled{false};
  std::mutex mutex;
  std::condition_variable credited;
  /* Responses that the client has not taken yet, in part. */
  uint32_t uncredited = 0;
  /* States that were updated: they travel with the next response. */
  std::deque<TRITONBACKEND_Output> states;
};

}  // namespace host

struct TRITONBACKEND_Request {
  std::shared_ptr<host::ResponseChannel> channel;
  /* The message: inputs without shared memory lie in it. */
  std::shared_ptr<std::vector<uint8_t>> body;
  std::vector<uint64_t> shared_offsets;
  std::string id;
  bool has_text_correlation = false;
  std::string text_correlation;
  uint64_t correlation = 0;
  uint32_t flags = 0;
  uint64_t timeout_us = 0;
  std::vector<TRITONSERVER_Parameter> parameters;
  std::vector<TRITONBACKEND_Input> inputs;
  std::vector<std::string> outputs;
  std::vector<std::unique_ptr<TRITONBACKEND_State>> states;
};

struct TRITONBACKEND_State {
  std::weak_ptr<host::ResponseChannel> channel;
  TRITONBACKEND_Output output;
};

struct TRITONBACKEND_ResponseFactory {
  std::shared_ptr<host::ResponseChannel> channel;
};

struct TRITONBACKEND_Response {
  std::shared_ptr<host::ResponseChannel> channel;
  std::deque<TRITONBACKEND_Output> outputs;
  std::vector<TRITONSERVER_Parameter> parameters;
};

struct TRITONBACKEND_ModelInstanceResponseStatistics {
  std::shared_ptr<host::ResponseChannel> channel;
  uint64_t start_ns = 0;
  uint64_t output_start_ns = 0;
  uint64_t end_ns = 0;
  bool has_error = false;
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_UNKNOWN;
};

struct TRITONSERVER_MetricFamily {
  uint32_t number;
  TRITONSERVER_MetricKind kind;
};

struct TRITONSERVER_Metric {
  uint32_t number;
  TRITONSERVER_MetricKind kind;
};
