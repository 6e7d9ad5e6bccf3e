/* A model in this process: its backend's library, and one thread for each of its instances. */
#pragma once

#include <deque>
#include <thread>

#include "host.h"
#include "library.h"

namespace host {

class ServedModel;

/* Requests that an instance executes together. */
struct Batch {
  uint32_t instance = 0;
  uint32_t number = 0;
  std::vector<TRITONBACKEND_Request*> requests;
};

/* One instance: its thread initializes it, executes its batches in order, and finalizes it. */
class ServedInstance {
 public:
  ServedInstance(ServedModel* owner, Reader& message);

  void Execute(std::unique_ptr<Batch> batch);
  /* Ends the thread after the batches that wait. Returns when it has ended. */
  void Close();

  uint32_t Number() const { return instance_.number; }

 private:
  void Run();
  bool Initialize();
  void RunBatch(Batch& batch);

  ServedModel* const owner_;
  TRITONBACKEND_ModelInstance instance_;
  std::mutex mutex_;
  std::condition_variable changed_;
  /* Null: the end. */
  std::deque<std::unique_ptr<Batch>> waiting_;
  std::thread thread_;
};

class ServedModel {
 public:
  /* Takes the message `LOAD`; calls the backend's own functions. */
  void Load(Reader& message);
  void AddInstance(Reader& message);
  void CloseInstance(uint32_t number);
  void Execute(std::unique_ptr<Batch> batch);
  void Finalize();

  Library library;
  TRITONBACKEND_Backend backend;
  TRITONBACKEND_Model model;
  /* Held while an instance initializes, unless the backend allows several at once. */
  std::mutex initializing;

 private:
  TRITONSERVER_Error* Start(const std::string& path);

  std::map<uint32_t, std::unique_ptr<ServedInstance>> instances_;
};

/* The batch of a message `EXECUTE`. From now on cancellations find its requests. */
std::unique_ptr<Batch> ReadBatch(
    const std::shared_ptr<std::vector<uint8_t>>& body, Reader& message, TRITONBACKEND_Model* model);

}  // namespace host
