/* Mappings of the two shared files, and the free list of the one for outputs. */
#include "shared_memory.h"

#include <iterator>
#include <sys/mman.h>

#include "wire.h"

namespace host {

namespace {

/* Smaller data travels in its message, as in the other direction. */
constexpr uint64_t SHARE_BYTES = 32 * 1024;

/* Powers of two, so that the server's views of regions can be reused. */
uint64_t CapacityFor(uint64_t byte_size) {
  uint64_t capacity = SHARE_BYTES;
  while (capacity < byte_size) capacity *= 2;
  return capacity;
}

}  // namespace

const uint8_t* InputMemory::At(uint64_t offset, uint64_t capacity) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = blocks_.find(offset);
  if (known != blocks_.end()) return known->second;
  void* mapped = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) throw ProtocolError("an input in shared memory cannot be mapped");
  return blocks_[offset] = static_cast<const uint8_t*>(mapped);
}

void OutputMemory::Open(int descriptor, uint64_t byte_length) {
  if (byte_length == 0) return;
  void* mapped = mmap(nullptr, byte_length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return;
  std::lock_guard<std::mutex> lock(mutex_);
  base_ = static_cast<uint8_t*>(mapped);
  free_[0] = byte_length;
}

bool OutputMemory::Take(uint64_t byte_size, Region* region) {
  if (byte_size < SHARE_BYTES) return false;
  const uint64_t capacity = CapacityFor(byte_size);
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [offset, size] : free_) {
    if (size < capacity) continue;
    *region = {base_ + offset, offset, capacity};
    if (size > capacity) free_[offset + capacity] = size - capacity;
    taken_[region->offset] = capacity;
    free_.erase(region->offset);
    return true;
  }
  return false;
}

void OutputMemory::Return(uint64_t offset) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto taken = taken_.find(offset);
  if (taken == taken_.end()) throw ProtocolError("the server returned an output that it does not hold");
  auto here = free_.emplace(offset, taken->second).first;
  taken_.erase(taken);
  const auto next = std::next(here);
  if (next != free_.end() && here->first + here->second == next->first) {
    here->second += next->second;
    free_.erase(next);
  }
  if (here == free_.begin()) return;
  const auto before = std::prev(here);
  if (before->first + before->second != here->first) return;
  before->second += here->second;
  free_.erase(here);
}

}  // namespace host
