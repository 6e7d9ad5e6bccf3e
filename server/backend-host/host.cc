/* Shared by all API functions: the one host of the process, questions to the server, errors and log lines. */
#include "host.h"

namespace host {

namespace {
Host* the_host = nullptr;
}

Host& TheHost() { return *the_host; }
void Start(Host* host) { the_host = host; }

uint32_t Host::NextQuestion() {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint32_t number = next_question_++;
  questions_[number];
  return number;
}

TRITONSERVER_Error* Host::Ask(uint32_t number, Writer& question, double* value) {
  connection.Send(question);
  std::unique_lock<std::mutex> lock(mutex_);
  answered_.wait(lock, [&] { return questions_[number].is_there; });
  const Answer answer = questions_[number];
  questions_.erase(number);
  if (answer.has_failed) return ErrorOf(TRITONSERVER_ERROR_INTERNAL, answer.text);
  if (value != nullptr) *value = answer.value;
  return nullptr;
}

void Host::Answered(Reader& message) {
  const uint32_t number = message.U32();
  Answer answer;
  answer.is_there = true;
  answer.has_failed = message.Bool();
  if (answer.has_failed) answer.text = message.String();
  else answer.value = message.F64();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    questions_[number] = answer;
  }
  answered_.notify_all();
}

void Host::Add(const std::shared_ptr<ResponseChannel>& channel) {
  std::lock_guard<std::mutex> lock(mutex_);
  channels_[channel->key] = channel;
}

void Host::Remove(uint32_t key) {
  std::lock_guard<std::mutex> lock(mutex_);
  channels_.erase(key);
}

std::shared_ptr<ResponseChannel> Host::Find(uint32_t key) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = channels_.find(key);
  return found == channels_.end() ? nullptr : found->second.lock();
}

TRITONSERVER_Error* ErrorOf(TRITONSERVER_Error_Code code, const std::string& text) {
  return new TRITONSERVER_Error{code, text};
}

TRITONSERVER_Error* OutOfBounds(
    const std::string& at, uint32_t index, const std::string& owner, size_t size, const char* items) {
  const std::string text =
      at + "out of bounds index " + std::to_string(index) + ": " + owner + " has " + std::to_string(size) + " " + items;
  return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, text);
}

void LogLine(TRITONSERVER_LogLevel level, const std::string& file, uint32_t line, const std::string& text) {
  Writer message(LOG);
  message.U8(static_cast<uint8_t>(level));
  message.String(file.substr(file.find_last_of('/') + 1));
  message.U32(line);
  message.String(text);
  TheHost().connection.Send(message);
}

}  // namespace host
