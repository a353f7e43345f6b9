#include "tessera/tensor/recycled.h"

#include <cstdint>
#include <new>

namespace tessera::tensor::detail {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kMostKept = 0;
#else
constexpr std::size_t kMostKept = std::size_t{512} << 10;  // bytes of one list
#endif
constexpr std::size_t kStep = 64;  // sizes are rounded up to it: a list for each
constexpr std::size_t kLists = 16;

struct Block {
  Block* next;
};
struct List {
  Block* first = nullptr;
  std::size_t room = 0;  // blocks that may still be kept
};
constinit thread_local List lists[kLists] = {};
constinit thread_local bool is_opened = false;

constexpr std::size_t list_of(std::size_t size) { return (size - 1) / kStep; }

// Lets go of what a thread keeps when it ends. What is freed after that finds no room.
struct Closer {
  Closer() = default;
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;
  ~Closer() {
    for (List& list : lists) {
      list.room = 0;
      while (list.first != nullptr) {
        Block* block = list.first;
        list.first = block->next;
        ::operator delete(block);
      }
    }
  }
  void open() const {
    for (std::size_t i = 0; i < kLists; ++i) lists[i].room = kMostKept / ((i + 1) * kStep);
  }
};

void keep(List& list, void* block) {
  list.first = ::new (block) Block{list.first};
  --list.room;
}

[[gnu::noinline]] void free_without_room(void* block, List& list) {
  if (!is_opened) {
    is_opened = true;
    static thread_local const Closer kCloser;
    kCloser.open();
  }
  list.room > 0 ? keep(list, block) : ::operator delete(block);
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
  list.room > 0 ? keep(list, block) : free_without_room(block, list);
}

}  // namespace tessera::tensor::detail
