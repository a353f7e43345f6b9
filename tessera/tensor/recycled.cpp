#include "tessera/tensor/recycled.h"

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace tessera::tensor::detail {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kMaxKept = 0;
#else
constexpr std::size_t kMaxKept = std::size_t{512} << 10;  // bytes of one list
#endif
constexpr std::size_t kStep = 64;  // sizes are rounded up to it, with one list each
constexpr std::size_t kLists = 16;

struct Block {
  Block* next;
};
struct List {
  Block* first = nullptr;
  std::size_t room = 0;  // blocks that may still be kept
};

// The lists of this thread, on the heap: thread-local storage is scarce if dlopen loads this library. Before a thread
// first frees a block, and after its end, its lists are `closed`: they are empty and have no room.
constinit List closed[kLists] = {};
constinit thread_local List* lists = closed;
constinit thread_local bool is_opened = false;

constexpr std::size_t list_of(std::size_t size) { return (size - 1) / kStep; }

// Frees the blocks of a thread when it ends. Blocks freed later find no room.
struct Closer {
  Closer() {
    for (std::size_t i = 0; i < kLists; ++i) own[i].room = kMaxKept / ((i + 1) * kStep);
    lists = own.get();
  }
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;
  ~Closer() {
    lists = closed;
    for (std::size_t i = 0; i < kLists; ++i) {
      while (own[i].first != nullptr) ::operator delete(std::exchange(own[i].first, own[i].first->next));
    }
  }
  std::unique_ptr<List[]> own = std::make_unique<List[]>(kLists);
};

void keep(List& list, void* block) {
  list.first = ::new (block) Block{list.first};
  --list.room;
}

[[gnu::noinline]] void free_without_room(void* block, std::size_t at) {
  if (!is_opened) {
    is_opened = true;
    static thread_local const Closer kCloser;
  }
  lists[at].room > 0 ? keep(lists[at], block) : ::operator delete(block);
}

}  // namespace

void* Recycled::operator new(std::size_t size) {
  const std::size_t at = list_of(size);
  if (at >= kLists) return ::operator new(size);
  List& list = lists[at];
  if (list.first == nullptr) return ::operator new((at + 1) * kStep);
  Block* block = list.first;
  list.first = block->next;
  ++list.room;
  return block;
}

void Recycled::operator delete(void* block, std::size_t size) noexcept {
  const std::size_t at = list_of(size);
  if (at >= kLists) return ::operator delete(block);
  List& list = lists[at];
  list.room > 0 ? keep(list, block) : free_without_room(block, at);
}

}  // namespace tessera::tensor::detail
