/*
 * Memory that the host shares with the server, over inherited descriptors: one file with inputs, which the server fills
 * and grows, and one into which outputs are written. Regions of the second belong to the server from the response that
 * names them until it returns them.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace host {

class InputMemory {
 public:
  explicit InputMemory(int descriptor) : descriptor_(descriptor) {}

  /* Blocks are mapped once: the server reuses them. Throws ProtocolError when the system refuses. */
  const uint8_t* At(uint64_t offset, uint64_t capacity);

 private:
  int descriptor_;
  std::mutex mutex_;
  std::map<uint64_t, const uint8_t*> blocks_;
};

class OutputMemory {
 public:
  struct Region {
    uint8_t* bytes = nullptr;
    uint64_t offset = 0;
    uint64_t capacity = 0;
  };

  /* Maps the file; with `byte_length` 0 there is none. */
  void Open(int descriptor, uint64_t byte_length);

  /* False: small data, or no room. It then travels in its message. */
  bool Take(uint64_t byte_size, Region* region);

  void Return(uint64_t offset);

 private:
  std::mutex mutex_;
  uint8_t* base_ = nullptr;
  std::map<uint64_t, uint64_t> free_;  // offset to size
  std::map<uint64_t, uint64_t> taken_;
};

}  // namespace host
