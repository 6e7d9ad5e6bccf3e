// The threads of a grid on one core of the host: each has a stack and runs until it must wait for others. Blocks, warps
// and the threads of a warp run in an order of the seed, so that what is only right in one order fails in another.
// Knows no instruction of a GPU.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

struct Dim3 {
  unsigned x, y, z;
};

namespace emulated {

constexpr int warpThreads = 32, maxThreads = 1024, maxWarps = maxThreads / warpThreads;
constexpr size_t stackBytes = 64 * 1024, maxSharedBytes = 228 * 1024, pageBytes = 4096;

enum class State { ready, atWarp, atBlock, looking, done };

struct Thread {
  jmp_buf at;
  ucontext_t start;
  void* stack;
  State state;
  bool isStarted;
  int number;
  Dim3 index;
};

struct Warp {
  int numThreads, numArrived;
  const char* instruction;
  // Changes with each meeting: what threads tell each other for one is not overwritten by what they tell for the next.
  int phase;
};

static Thread threads[maxThreads];
static Warp warps[maxWarps];
static Thread* current;
static Dim3 blockIndex, blockSize, gridSize;
static int numRunning, numAtBlock;
static uint64_t blocksRun;
static jmp_buf scheduler;
static sigjmp_buf launchEnd;
static char message[512];
static uint32_t randomState;
// Of the running block; what lies behind it cannot be touched.
static uint8_t *dynamicShared, *sharedEnd;
static size_t dynamicSharedBytes;

// Where the linker puts what a kernel declares as __shared__.
extern "C" char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));

[[noreturn]] __attribute__((format(printf, 1, 2))) static void fail(const char* format, ...) {
  int used = snprintf(message, sizeof message, "block (%u, %u, %u), thread %d: ", blockIndex.x, blockIndex.y,
                      blockIndex.z, current == nullptr ? -1 : current->number);
  va_list values;
  va_start(values, format);
  vsnprintf(message + used, sizeof message - (size_t)used, format, values);
  va_end(values);
  siglongjmp(launchEnd, 1);
}

static uint32_t next_random() {
  randomState ^= randomState << 13;
  randomState ^= randomState >> 17;
  randomState ^= randomState << 5;
  return randomState;
}

// Numbers 0 .. count - 1 from any of them on, up or down.
struct Order {
  uint32_t count, start;
  bool isFalling;
  explicit Order(uint32_t n) : count(n), start(next_random() % n), isFalling((next_random() & 64) != 0) {}
  uint32_t at(uint32_t i) const {
    const uint32_t turned = (start + i) % count;
    return isFalling ? count - 1 - turned : turned;
  }
};

// ---- changing from thread to thread ----

// To the scheduler. The barrier: others change what the compiler believes to know.
__attribute__((noinline)) static void pause_thread() {
  if (_setjmp(current->at) == 0) _longjmp(scheduler, 1);
  __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void resume(Thread& thread) {
  current = &thread;
  if (_setjmp(scheduler) == 0) {
    if (thread.isStarted) _longjmp(thread.at, 1);
    thread.isStarted = true;
    setcontext(&thread.start);
  }
  __asm__ volatile("" ::: "memory");
}

static void release(int first, int end, State from) {
  for (int i = first; i < end; i++)
    if (threads[i].state == from) threads[i].state = State::ready;
}

static void release_warp_if_met(int number) {
  Warp& warp = warps[number];
  if (warp.numThreads == 0 || warp.numArrived < warp.numThreads) return;
  warp.numArrived = 0;
  warp.phase ^= 1;
  release(number * warpThreads, (number + 1) * warpThreads, State::atWarp);
}

static void release_block_if_met() {
  if (numRunning == 0 || numAtBlock < numRunning) return;
  numAtBlock = 0;
  release(0, maxThreads, State::atBlock);
}

static int lane() { return current->number % warpThreads; }
static int warp_number() { return current->number / warpThreads; }

// Waits for the other threads of the warp. All must be at the same instruction.
static void meet_warp(const char* instruction) {
  const int number = warp_number();
  Warp& warp = warps[number];
  if (warp.numArrived++ == 0) warp.instruction = instruction;
  if (warp.instruction != instruction && strcmp(warp.instruction, instruction) != 0)
    fail("a warp is at %s and at %s at once", instruction, warp.instruction);
  current->state = State::atWarp;
  release_warp_if_met(number);
  while (current->state != State::ready) pause_thread();
}

// Waits for the other threads of the block; those that have ended do not count.
static void meet_block() {
  numAtBlock++;
  current->state = State::atBlock;
  release_block_if_met();
  while (current->state != State::ready) pause_thread();
}

// Until all others have had a turn: for a thread that looks again and again for what another writes.
static void let_others_run() {
  current->state = State::looking;
  while (current->state != State::ready) pause_thread();
}

// ---- blocks ----

static void (*body)(void**);
static void** bodyArguments;

static void enter() {
  for (;;) {
    body(bodyArguments);
    current->state = State::done;
    numRunning--;
    warps[warp_number()].numThreads--;
    release_warp_if_met(warp_number());
    release_block_if_met();
    pause_thread();
  }
}

static void prepare_thread(Thread& thread, int number) {
  thread.number = number;
  thread.index = {number % blockSize.x, number / blockSize.x % blockSize.y, number / blockSize.x / blockSize.y};
  thread.state = State::ready;
  if (thread.stack == nullptr) thread.stack = malloc(stackBytes);
  if (thread.isStarted) return;
  getcontext(&thread.start);
  thread.start.uc_stack.ss_sp = thread.stack;
  thread.start.uc_stack.ss_size = stackBytes;
  thread.start.uc_link = nullptr;
  makecontext(&thread.start, enter, 0);
}

static bool run_ready_threads(int warp, int count) {
  const int first = warp * warpThreads;
  const int size = count - first < warpThreads ? count - first : warpThreads;
  const Order order((uint32_t)size);
  bool hasRun = false;
  for (uint32_t i = 0; i < order.count; i++) {
    Thread& thread = threads[first + (int)order.at(i)];
    if (thread.state != State::ready) continue;
    hasRun = true;
    resume(thread);
  }
  return hasRun;
}

// A warp runs until it waits for others: the more one is ahead of another, the more a missing barrier shows.
static void run_block(int count) {
  const int numWarps = (count + warpThreads - 1) / warpThreads;
  blocksRun++;
  numRunning = count;
  numAtBlock = 0;
  for (int w = 0; w < numWarps; w++) {
    const int rest = count - w * warpThreads;
    warps[w] = {rest < warpThreads ? rest : warpThreads, 0, "", 0};
  }
  for (int i = 0; i < count; i++) prepare_thread(threads[i], i);
  while (numRunning > 0) {
    bool hasRun = false;
    const Order order((uint32_t)numWarps);
    for (uint32_t i = 0; i < order.count; i++)
      while (run_ready_threads((int)order.at(i), count)) hasRun = true;
    release(0, count, State::looking);
    if (!hasRun) fail("%d threads wait for others that never come, %d of them for the block", numRunning, numAtBlock);
  }
}

static void poison_shared() {
  if (__start_emulated_shared != nullptr)
    memset(__start_emulated_shared, 0xff, (size_t)(__stop_emulated_shared - __start_emulated_shared));
  memset(dynamicShared, 0xff, dynamicSharedBytes);
}

static void place_shared(size_t numBytes) {
  if (sharedEnd == nullptr) {
    const size_t size = maxSharedBytes + pageBytes;
    void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) fail("no memory for what a block shares");
    sharedEnd = (uint8_t*)mapped + maxSharedBytes;
    mprotect(sharedEnd, pageBytes, PROT_NONE);
  }
  if (numBytes > maxSharedBytes) fail("%zu bytes of shared memory are more than there are", numBytes);
  dynamicSharedBytes = numBytes;
  dynamicShared = sharedEnd - (numBytes + 127) / 128 * 128;
}

// ---- launches ----

static void on_fault(int signal, siginfo_t* info, void*) {
  if (signal == SIGSEGV || signal == SIGBUS) fail("touches memory at %p, which it was not given", info->si_addr);
  fail("ends with signal %d", signal);
}

constexpr int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
constexpr int numFaults = sizeof faults / sizeof faults[0];
static struct sigaction oldActions[numFaults];

static void watch_faults() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (int i = 0; i < numFaults; i++) sigaction(faults[i], &action, &oldActions[i]);
}

static void leave_faults() {
  for (int i = 0; i < numFaults; i++) sigaction(faults[i], &oldActions[i], nullptr);
}

static void run_grid() {
  const Order xs(gridSize.x), ys(gridSize.y), zs(gridSize.z);
  for (uint32_t z = 0; z < zs.count; z++)
    for (uint32_t y = 0; y < ys.count; y++)
      for (uint32_t x = 0; x < xs.count; x++) {
        blockIndex = {xs.at(x), ys.at(y), zs.at(z)};
        poison_shared();
        run_block((int)(blockSize.x * blockSize.y * blockSize.z));
      }
}

// sizes: grid, block, bytes of shared memory, seed. Null, or what went wrong.
static const char* launch(const uint32_t* sizes, void (*kernel)(void**), void** arguments) {
  gridSize = {sizes[0], sizes[1], sizes[2]};
  blockSize = {sizes[3], sizes[4], sizes[5]};
  randomState = sizes[7] * 2654435761u | 1u;
  body = kernel;
  bodyArguments = arguments;
  current = nullptr;
  message[0] = 0;
  watch_faults();
  if (sigsetjmp(launchEnd, 1) == 0) {
    place_shared(sizes[6]);
    run_grid();
  } else {
    // Threads that were left in the middle begin anew.
    for (Thread& thread : threads) thread.isStarted = false;
  }
  leave_faults();
  return message[0] == 0 ? nullptr : message;
}

// ---- the function of a kernel, from pointers to its arguments ----

template <class T> struct Plain { typedef T type; };
template <class T> struct Plain<const T> { typedef T type; };

template <class T> struct Kind;
template <> struct Kind<int> { static constexpr char letter = 'i'; };
template <> struct Kind<float> { static constexpr char letter = 'f'; };
template <> struct Kind<long long> { static constexpr char letter = 'l'; };
template <class T> struct Kind<T*> { static constexpr char letter = 'p'; };

template <int... I> struct Indices {};
template <int N, int... I> struct CountUp : CountUp<N - 1, N - 1, I...> {};
template <int... I> struct CountUp<0, I...> { typedef Indices<I...> type; };

template <class... A, int... I> void call(void (*kernel)(A...), void** arguments, Indices<I...>) {
  kernel(*(typename Plain<A>::type*)arguments[I]...);
}
template <class... A> void call(void (*kernel)(A...), void** arguments) {
  call(kernel, arguments, typename CountUp<sizeof...(A)>::type());
}
template <class... A> const char* kinds(void (*)(A...)) {
  static const char letters[] = {Kind<typename Plain<A>::type>::letter..., 0};
  return letters;
}

} // namespace emulated

#define EMULATED_KERNEL(name)                                                                              \
  extern "C" __attribute__((visibility("default"))) const char* emulated_kinds() {                         \
    return emulated::kinds(name);                                                                          \
  }                                                                                                        \
  extern "C" __attribute__((visibility("default"))) const char* emulated_launch(const uint32_t* sizes,     \
                                                                               void** arguments) {         \
    return emulated::launch(                                                                               \
        sizes, [](void** each) { emulated::call(name, each); }, arguments);                                \
  }
