/* The process: its connection, its shared memory, and the calls that wait for the server. */
#pragma once

#include <map>

#include "objects.h"
#include "wire.h"

namespace host {

/* Kinds of messages from the host, by the first byte. The counterpart is backend/native-host/messages.ts. */
enum Kind : uint8_t {
  HELLO = 65,
  EXECUTED = 67,
  RESPONSE = 68,
  LOG = 71,
  FINALIZED = 72,
  ASK = 73,
  RELEASED = 75,
  RESCHEDULE = 77,
  LOADED = 80,
  INSTANCE_READY = 81,
  RESPONSE_STATISTICS = 82,
  ENDED = 83,
  INSTANCE_CLOSED = 84,
};

class Host {
 public:
  Host(int socket, int inputs, int outputs) : connection(socket), input_memory(inputs), output_descriptor(outputs) {}

  Connection connection;
  InputMemory input_memory;
  OutputMemory output_memory;
  const int output_descriptor;

  /* Number for a question, which goes behind the kind in its message. */
  uint32_t NextQuestion();
  /* Sends a question and waits for its answer. Null: success; `value` is set where it is not null. */
  TRITONSERVER_Error* Ask(uint32_t number, Writer& question, double* value);
  void Answered(Reader& message);

  /* Requests that may still be cancelled or credited, by key. */
  void Add(const std::shared_ptr<ResponseChannel>& channel);
  void Remove(uint32_t key);
  std::shared_ptr<ResponseChannel> Find(uint32_t key);

 private:
  struct Answer {
    bool is_there = false;
    bool has_failed = false;
    double value = 0;
    std::string text;
  };

  std::mutex mutex_;
  std::condition_variable answered_;
  std::map<uint32_t, Answer> questions_;
  uint32_t next_question_ = 1;
  std::map<uint32_t, std::weak_ptr<ResponseChannel>> channels_;
};

/* The one host of this process. */
Host& TheHost();
void Start(Host* host);

TRITONSERVER_Error* ErrorOf(TRITONSERVER_Error_Code code, const std::string& text);
TRITONSERVER_Error* OutOfBounds(const std::string& at, uint32_t index, const std::string& owner, size_t size, const char* items);
void LogLine(TRITONSERVER_LogLevel level, const std::string& file, uint32_t line, const std::string& text);

/* Sends what a response holds. `error` stays the caller's. */
void SendResponse(ResponseChannel& channel, TRITONBACKEND_Response* response, bool is_final, const TRITONSERVER_Error* error);

void WriteParameters(Writer& message, const std::vector<TRITONSERVER_Parameter>& parameters);

}  // namespace host
