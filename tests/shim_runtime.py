"""What kernels of tests/cuda_shim.py run on, in C++: threads as fibers, barriers, exchanges within a warp, a look at memory.

Kernels are compiled with `-fsanitize=thread`, which calls a function before each load and store; the functions are ours. Each
element of the launch's arrays and each word of shared memory has a cell that tells who wrote it and who read it last, and when:
`stamp` counts barriers, of the block and of its warps. Two touches of a cell, one of them a write, by different threads without
a barrier of the block between them (or of the warp, if it is theirs; an exchange is none) are a race, as are those of different
blocks. What is touched outside the arrays, unaligned, or read from shared memory before it is written, is an error. It stops
the launch before the access, so nothing is damaged.
"""

__all__ = ["HEAD", "RUNTIME"]

RUNTIME = r"""
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>
namespace {
struct Index { unsigned x, y, z; };
struct Cell { uint32_t wrote, read; uint16_t writer, reader; uint8_t shared, forbidden; };  // stamps and threads
const uint16_t SOME = 0x8000, MANY = 0xffff;  // readers: several of the warp that is the rest of the number; of several warps
struct Segment { uintptr_t start, end; unsigned granule; Cell* cells; };
const size_t STACK = 1 << 18, THREADS = 1024, DYNAMIC = 232448;
enum State : char { RUNS, AT_BARRIER, IN_WARP, ENDED };
Index block_index, block_dim, grid_dim, thread_index[THREADS];
jmp_buf scheduler, places[THREADS];
ucontext_t begins[THREADS];
char* stacks;
bool made[THREADS];
State state[THREADS];
void (*body)(void**);
void** arguments;
unsigned current, count, at_barrier, barrier_line;
unsigned warp_mask[THREADS / 32], warp_here[THREADS / 32], warp_line[THREADS / 32];
uint32_t stamp, launch_start, block_start, block_stamp, warp_stamp[THREADS / 32];
char slots[2][THREADS][16];
unsigned char turn[THREADS];
bool checking;
char message[400];
std::vector<Segment> segments;
std::vector<Cell> cells;
alignas(1024) char dynamic[DYNAMIC];
uintptr_t shared_start, shared_end;
size_t dynamic_size, static_used;
Cell* shared_cells;
size_t shared_room;

[[noreturn]] void fail(const char* format, ...) {
  va_list rest;
  va_start(rest, format);
  int n = snprintf(message, sizeof message, "thread %u of block %u: ", current, block_index.x);
  vsnprintf(message + n, sizeof message - n, format, rest);
  va_end(rest);
  made[current] = false;
  _longjmp(scheduler, 2);
}
void enter() {
  for (;;) {
    body(arguments);
    state[current] = ENDED;
    if (!_setjmp(places[current])) _longjmp(scheduler, 1);
  }
}
void leave() { if (!_setjmp(places[current])) _longjmp(scheduler, 1); }

inline bool ordered(uint32_t when, unsigned other, bool global) {  // is that touch by this thread, or before a barrier?
  if (other == current) return !global || when >= block_start;
  if (when < block_start) return !global;
  if (when < block_stamp) return true;
  return other / 32 == current / 32 && when < warp_stamp[current / 32];
}
inline uint32_t now() { uint32_t w = warp_stamp[current / 32]; return w > block_stamp ? w : block_stamp; }
void touch(Cell& c, bool write, bool global, uintptr_t address, const char* what, long place) {
  if (c.forbidden) fail("touches element %ld of %s, which is between those of a view", place, what);
  bool fresh = c.wrote < (global ? launch_start : block_start);
  if (!fresh && !ordered(c.wrote, c.writer, global))
    fail("%s element %ld of %s, which thread %u %s without a barrier", write ? "writes" : "reads", place, what, c.writer,
         c.wrote < block_start ? "of another block wrote" : "wrote");
  if (!write) {
    if (!global && fresh) fail("reads element %ld of %s, which nobody wrote", place, what);
    if (c.read < launch_start) c.shared = 0;
    if (c.read < block_stamp || c.reader == current) {
      c.shared |= global && c.read >= launch_start && c.read < block_start;
      c.reader = current;
    } else {
      unsigned warp = current / 32, theirs = c.reader == MANY ? MANY : (c.reader & SOME ? c.reader & ~SOME : c.reader / 32);
      c.reader = theirs != warp ? MANY : c.read < warp_stamp[warp] ? current : SOME | warp;
    }
    c.read = now();
    return;
  }
  if (c.read >= launch_start && (global || c.read >= block_start)) {
    bool good = !(global && c.shared);
    if (c.reader & SOME) {
      bool mine = c.reader != MANY && (c.reader & ~SOME) == current / 32 && c.read < warp_stamp[current / 32];
      good = good && c.read >= (global ? block_start : 0) && (c.read < block_stamp || mine);
    } else {
      good = good && ordered(c.read, c.reader, global);
    }
    if (!good) fail("writes element %ld of %s, which another thread reads without a barrier", place, what);
  }
  c.wrote = now();
  c.writer = current;
}
bool outside(uintptr_t address) {  // is it no constant of a library's?
  Dl_info info;
  return !dladdr((void*)address, &info);
}
void look(uintptr_t a, size_t size, size_t alignment, bool write) {
  if (!body) return;
  uintptr_t stack = (uintptr_t)stacks + STACK * current;
  if (a >= stack && a < stack + STACK) return;
  bool is_static = a >= shared_start && a < shared_end;
  bool is_dynamic = a >= (uintptr_t)dynamic && a < (uintptr_t)dynamic + DYNAMIC;
  if (a % alignment) fail("an access of %zu bytes is not aligned", size);
  if (is_static || is_dynamic) {
    uintptr_t start = is_static ? shared_start : (uintptr_t)dynamic;
    if (is_dynamic && a + size > start + dynamic_size)
      fail("shared memory of %zu bytes, byte %zu", dynamic_size, a - start + size - 1);
    if (is_static && a + size > shared_end) fail("byte %zu is behind shared memory", a - start);
    Cell* of = shared_cells + (is_static ? DYNAMIC : 0);
    for (size_t i = a - start; i < a - start + size; i++) {
      bool more = is_static && write && of[i].wrote < block_start;
      if (more && ++static_used > 48 * 1024) fail("more than 48 KiB of shared memory");
      touch(of[i], write, false, a, "shared memory (bytes)", i);
    }
    return;
  }
  for (Segment& s : segments) {
    if (a >= s.start && a < s.end) {
      if (a + size > s.end) fail("%s %zu bytes of which some are behind an array's end", write ? "writes" : "reads", size);
      if (!checking) return;
      for (size_t i = (a - s.start) / s.granule; i < (a + size - s.start + s.granule - 1) / s.granule; i++)
        touch(s.cells[i], write, true, a, "an array", i);
      return;
    }
  }
  if (write || outside(a)) {
    intptr_t nearest = 0;
    for (Segment& s : segments) {
      intptr_t d = a < s.start ? (intptr_t)(a - s.start) : (intptr_t)(a - s.end) + 1;
      if (!nearest || labs(d) < labs(nearest)) nearest = d;
    }
    fail("%s %zu bytes outside all arrays, %ld bytes from the next one", write ? "writes" : "reads", size, (long)nearest);
  }
}
void warp_wait(unsigned mask, unsigned line, bool orders) {
  unsigned warp = current / 32, lane = current % 32, here = count - warp * 32;
  mask &= here >= 32 ? ~0u : (1u << here) - 1;
  if (!(mask >> lane & 1)) fail("a mask without the thread's own lane");
  if (!warp_here[warp]) { warp_mask[warp] = mask; warp_line[warp] = line; }
  if (warp_mask[warp] != mask || warp_line[warp] != line) fail("lanes of a warp wait at different places");
  warp_here[warp] |= 1u << lane;
  if (warp_here[warp] == mask) {
    warp_here[warp] = 0;
    for (unsigned i = 0; i < 32; i++) if (mask >> i & 1) state[warp * 32 + i] = RUNS;
    if (orders) warp_stamp[warp] = ++stamp;
    return;
  }
  state[current] = IN_WARP;
  leave();
}
}  // namespace

extern "C" {
Index shim_thread() { return thread_index[current]; }
Index shim_block() { return block_index; }
Index shim_block_dim() { return block_dim; }
Index shim_grid_dim() { return grid_dim; }
void* shim_dynamic() { return dynamic; }
void shim_sync(unsigned line) {
  if (at_barrier && barrier_line != line) fail("threads of a block wait at different barriers");
  barrier_line = line;
  state[current] = AT_BARRIER;
  at_barrier++;
  if (at_barrier < count) { leave(); return; }
  at_barrier = 0;
  for (unsigned i = 0; i < count; i++) state[i] = RUNS;
  block_stamp = ++stamp;
}
void shim_sync_warp(unsigned mask, unsigned line) { warp_wait(mask, line, true); }
void shim_exchange(unsigned mask, void* value, size_t size, int lane, unsigned line) {
  unsigned mine = turn[current]++ & 1, from = current / 32 * 32 + lane;
  memcpy(slots[mine][current], value, size);
  warp_wait(mask, line, false);
  if (lane < 0 || lane > 31 || from >= count || !(mask >> lane & 1)) fail("an exchange with lane %d, which is not there", lane);
  memcpy(value, slots[mine][from], size);
}
#define LOOK(n) \
  void __tsan_read##n(void* a) { look((uintptr_t)a, n, n, false); } \
  void __tsan_write##n(void* a) { look((uintptr_t)a, n, n, true); } \
  void __tsan_unaligned_read##n(void* a) { look((uintptr_t)a, n, 1, false); } \
  void __tsan_unaligned_write##n(void* a) { look((uintptr_t)a, n, 1, true); }
LOOK(1) LOOK(2) LOOK(4) LOOK(8) LOOK(16)
void __tsan_read_range(void* a, long n) { if (n) look((uintptr_t)a, n, 1, false); }
void __tsan_write_range(void* a, long n) { if (n) look((uintptr_t)a, n, 1, true); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}

const char* shim_message() { return message; }

// arrays: start, bytes, granule, and the address of a byte for each granule that is 1 for those that may be touched, or 0.
// order: 0 threads ascend, 1 descend, beyond shuffled. Returns 0, or 1 with a message.
int shim_launch(void (*f)(void**), void** args, char* from, char* to, const unsigned* grid, const unsigned* block,
                size_t dynamic_bytes, const uintptr_t* arrays, int number, int order) {
  grid_dim = {grid[0], grid[1], grid[2]};
  block_dim = {block[0], block[1], block[2]};
  count = block[0] * block[1] * block[2];
  message[0] = 0;
  if (count > THREADS || !count) { snprintf(message, sizeof message, "blocks of %u threads", count); return 1; }
  if (!stacks) {
    stacks = (char*)mmap(nullptr, STACK * THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) abort();
    for (size_t i = 0; i < THREADS; i++) mprotect(stacks + STACK * i, 4096, PROT_NONE);
  }
  shared_start = (uintptr_t)from; shared_end = (uintptr_t)to;
  if (shared_room < DYNAMIC + (to - from)) {
    free(shared_cells);
    shared_room = DYNAMIC + (to - from);
    shared_cells = (Cell*)calloc(shared_room, sizeof(Cell));
  }
  if (stamp > 0xf0000000u) { stamp = 0; memset(shared_cells, 0, shared_room * sizeof(Cell)); }
  launch_start = ++stamp;
  checking = order < 2;
  segments.clear();
  size_t needed = 0;
  for (int i = 0; i < number; i++) {
    const uintptr_t* a = arrays + 4 * i;
    segments.push_back({a[0], a[0] + a[1], (unsigned)a[2], nullptr});
    needed += a[1] / a[2];
  }
  if (checking) {
    cells.assign(needed, Cell{});
    Cell* next = cells.data();
    for (int i = 0; i < number; i++) {
      const uintptr_t* a = arrays + 4 * i;
      segments[i].cells = next;
      const char* allowed = (const char*)a[3];
      for (size_t k = 0; allowed && k < a[1] / a[2]; k++) next[k].forbidden = !allowed[k];
      next += a[1] / a[2];
    }
  }
  dynamic_size = dynamic_bytes;
  body = f; arguments = args;
  unsigned blocks = grid[0] * grid[1] * grid[2];
  std::vector<unsigned> threads(count), order_of_blocks(blocks);
  uint64_t seed = 88172645463325252ull * (order + 1);
  auto arrange = [&](std::vector<unsigned>& v) {
    unsigned n = v.size();
    for (unsigned i = 0; i < n; i++) v[i] = order == 1 ? n - 1 - i : i;
    for (unsigned i = n; order > 1 && i > 1; i--) {
      seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
      unsigned k = seed % i, t = v[i - 1];
      v[i - 1] = v[k]; v[k] = t;
    }
  };
  for (unsigned i = 0; i < count; i++) thread_index[i] = {i % block[0], i / block[0] % block[1], i / (block[0] * block[1])};
  arrange(order_of_blocks);
  volatile bool failed = false;
  for (unsigned volatile b = 0; b < blocks && !failed; b++) {
    unsigned n = order_of_blocks[b];
    block_index = {n % grid[0], n / grid[0] % grid[1], n / (grid[0] * grid[1])};
    arrange(threads);
    memset(dynamic, 0xff, dynamic_size);
    memset(from, 0xff, to - from);
    memset(state, RUNS, count);
    memset(warp_here, 0, sizeof warp_here);
    memset(turn, 0, sizeof turn);
    at_barrier = 0; static_used = 0;
    block_start = block_stamp = ++stamp;
    for (unsigned i = 0; i < THREADS / 32; i++) warp_stamp[i] = 0;
    for (;;) {
      volatile bool moved = false;
      volatile unsigned ended = 0;
      for (unsigned volatile k = 0; k < count && !failed; k++) {
        unsigned i = threads[k];
        if (state[i] == RUNS) {
          moved = true;
          current = i;
          int found = _setjmp(scheduler);
          if (!found) {
            if (made[i]) _longjmp(places[i], 1);
            made[i] = true;
            getcontext(&begins[i]);
            begins[i].uc_stack.ss_sp = stacks + STACK * i + 4096;
            begins[i].uc_stack.ss_size = STACK - 4096;
            begins[i].uc_link = nullptr;
            makecontext(&begins[i], enter, 0);
            setcontext(&begins[i]);
          }
          if (found == 2) failed = true;
        }
        ended += state[threads[k]] == ENDED;
      }
      if (failed || ended == count) break;
      if (!moved) {
        snprintf(message, sizeof message, "block %u: a barrier that not all threads reach: %u ended, %u wait for their block",
                 block_index.x, ended, at_barrier);
        failed = true;
        break;
      }
    }
  }
  if (failed) memset(made, 0, sizeof made);  // what is left of them is of no use
  body = nullptr;
  return failed;
}
}
"""

HEAD = r"""
#include <math.h>
#include <cstddef>
#include <cstring>
#define SHIM __attribute__((no_sanitize("thread")))
struct ShimIndex { unsigned x, y, z; };
extern "C" {
__attribute__((const)) ShimIndex shim_thread();
__attribute__((pure)) ShimIndex shim_block();
__attribute__((pure)) ShimIndex shim_block_dim();
__attribute__((pure)) ShimIndex shim_grid_dim();
void* shim_dynamic();
void shim_sync(unsigned);
void shim_sync_warp(unsigned, unsigned);
void shim_exchange(unsigned, void*, size_t, int, unsigned);
int shim_launch(void (*)(void**), void**, char*, char*, const unsigned*, const unsigned*, size_t, const size_t*, int, int);
extern char __start_shim_shared[] __attribute__((visibility("hidden")));
extern char __stop_shim_shared[] __attribute__((visibility("hidden")));
}
static char shim_some __attribute__((section("shim_shared"), used, aligned(16)));
#define __global__ static __attribute__((noinline))
#define __device__
#define __constant__ static const
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("shim_shared"), aligned(16)))
#define __restrict__
#define threadIdx shim_thread()
#define blockIdx shim_block()
#define blockDim shim_block_dim()
#define gridDim shim_grid_dim()
#define warpSize 32
#define __syncthreads() shim_sync(__LINE__)
template <class T> SHIM static T shim_shuffle(unsigned mask, T v, int lane, unsigned line) {
  static_assert(sizeof(T) <= 8, "CUDA exchanges numbers of up to 8 bytes");
  shim_exchange(mask, &v, sizeof v, lane, line);
  return v;
}
#define SHIM_LANE ((int)(threadIdx.x % 32))
SHIM static inline int shim_below(int o) { int k = SHIM_LANE + o; return k < 32 ? k : SHIM_LANE; }
SHIM static inline int shim_above(int o) { int k = SHIM_LANE - o; return k >= 0 ? k : SHIM_LANE; }
#define __shfl_sync(mask, v, lane) shim_shuffle(mask, v, (lane) & 31, __LINE__)
#define __shfl_xor_sync(mask, v, o) shim_shuffle(mask, v, SHIM_LANE ^ (o), __LINE__)
#define __shfl_down_sync(mask, v, o) shim_shuffle(mask, v, shim_below(o), __LINE__)
#define __shfl_up_sync(mask, v, o) shim_shuffle(mask, v, shim_above(o), __LINE__)
#define SHIM_SYNCWARP(mask, ...) shim_sync_warp(mask, __LINE__)
#define __syncwarp(...) SHIM_SYNCWARP(__VA_ARGS__ __VA_OPT__(,) 0xffffffffu, 0)
"""
