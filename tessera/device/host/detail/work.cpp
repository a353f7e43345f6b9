#include "tessera/device/host/detail/work.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace tessera::device::host::detail {
namespace {

// The alignment of a type divides its size, so the lowest set bit of the size is sufficient.
std::size_t enough_alignment(std::size_t nbytes) { return nbytes & (~nbytes + 1); }

template <class Item>
void fill_as(void* to, Item item, std::size_t count) {
  auto* at = static_cast<std::byte*>(to);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(at + i * sizeof item, &item, sizeof item);
}

}  // namespace

// Followed by the pointers, then by the arguments, each aligned.
struct HostKernelCall::Block {
  std::align_val_t alignment;
};

HostKernelCall::HostKernelCall(HostKernelFn function, const LaunchConfig& config, const KernelArgs& args)
    : function_(function), config_(config) {
  static_assert(sizeof(HostKernelCall) <= HostFunction::kInline);
  if (fits_in_place(args)) [[likely]] {
    for (std::size_t i = 0; i < count_; ++i) std::memcpy(place_ + offsets_[i], args.pointers()[i], args.sizes()[i]);
  } else {
    block_ = make_block(args);
    count_ = kInBlock;
  }
}

HostKernelCall::HostKernelCall(HostKernelCall&& other) noexcept
    : function_(other.function_), config_(other.config_), count_(std::exchange(other.count_, std::uint8_t{0})) {
  std::memcpy(place_, other.place_, sizeof place_);
  std::memcpy(offsets_, other.offsets_, sizeof offsets_);
}

HostKernelCall::~HostKernelCall() {
  if (count_ == kInBlock) ::operator delete(block_, block_->alignment);
}

// Lays out the arguments and sets count_ if there is room for all.
bool HostKernelCall::fits_in_place(const KernelArgs& args) {
  const auto sizes = args.sizes();
  if (sizes.size() > sizeof offsets_) return false;
  std::size_t nbytes = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t own = enough_alignment(sizes[i]);
    const std::size_t at = (nbytes + own - 1) / own * own;
    nbytes = at + sizes[i];
    if (own > alignof(HostKernelCall) || nbytes > kPlaceNbytes) return false;
    offsets_[i] = static_cast<std::uint8_t>(at);
  }
  count_ = static_cast<std::uint8_t>(sizes.size());
  return true;
}

HostKernelCall::Block* HostKernelCall::make_block(const KernelArgs& args) {
  const auto pointers = args.pointers();
  const auto sizes = args.sizes();
  std::size_t nbytes = sizeof(Block) + pointers.size() * sizeof(void*);
  std::size_t alignment = alignof(void*);
  std::size_t at[KernelArgs::kMax];
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t own = enough_alignment(sizes[i]);
    alignment = std::max(alignment, own);
    at[i] = (nbytes + own - 1) / own * own;
    nbytes = at[i] + sizes[i];
  }
  auto* raw = static_cast<std::byte*>(::operator new(nbytes, std::align_val_t(alignment)));
  auto* block = ::new (raw) Block{std::align_val_t(alignment)};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::memcpy(raw + at[i], pointers[i], sizes[i]);
    void* place = raw + at[i];
    std::memcpy(raw + sizeof(Block) + i * sizeof(void*), &place, sizeof place);
  }
  return block;
}

void HostKernelCall::operator()() const {
  if (count_ == kInBlock) return function_(config_, reinterpret_cast<void* const*>(block_ + 1));
  void* arguments[sizeof offsets_];
  for (std::size_t i = 0; i < count_; ++i) arguments[i] = const_cast<std::byte*>(place_) + offsets_[i];
  function_(config_, arguments);
}

void copy_rows(const Copy2d& rows) {
  auto* to = static_cast<std::byte*>(rows.to);
  const auto* from = static_cast<const std::byte*>(rows.from);
  for (std::size_t row = 0; row < rows.height; ++row) {
    std::memmove(to + row * rows.to_pitch, from + row * rows.from_pitch, rows.width);
  }
}

void fill_items(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count) {
  if (item_nbytes == 1) {
    if (count > 0) std::memset(to, static_cast<int>(pattern & 0xFF), count);
  } else if (item_nbytes == 2) {
    fill_as(to, static_cast<std::uint16_t>(pattern), count);
  } else {
    fill_as(to, pattern, count);
  }
}

bool value_holds(const std::uint64_t* from, std::uint64_t value, Compare compare) {
  const std::uint64_t word = __atomic_load_n(from, __ATOMIC_ACQUIRE);
  switch (compare) {
    case Compare::kEqual: return word == value;
    case Compare::kGreaterEqual: return static_cast<std::int64_t>(word - value) >= 0;
    case Compare::kAnd: return (word & value) != 0;
  }
  return true;
}

void wait_for_value(HostShared& shared, const std::uint64_t* from, std::uint64_t value, Compare compare) {
  // Another thread or process may write the word by a plain store, which rings no bell: check again soon.
  shared.wait(
      shared.value_bell(), [&] { return value_holds(from, value, compare); }, kForever,
      [&] {
        return tessera::detail::concat("the word at ", static_cast<const void*>(from), " to reach ", value, " (it is ",
                                       __atomic_load_n(from, __ATOMIC_ACQUIRE), ")");
      },
      std::chrono::microseconds(100));
}

void write_word(HostShared& shared, std::uint64_t* to, std::uint64_t value) {
  __atomic_store_n(to, value, __ATOMIC_SEQ_CST);
  shared.value_bell().ring();
}

}  // namespace tessera::device::host::detail
