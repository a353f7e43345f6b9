#include "tessera/memory/label.h"

#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "tessera/base/error.h"

namespace tessera::memory {
namespace {

// A text with its number.
struct Known {
  std::string text;
  LabelId id = 0;
};

// All texts of the process, by number. Finding a text by number takes no lock: pages never move, and each page is twice
// the size of the previous one, so that few pointers reach any number. Never destroyed: memory is freed, and labeled,
// until the end of a process.
class LabelTable {
 public:
  static LabelTable& get() {
    static LabelTable* const table = new LabelTable;  // NOLINT(cppcoreguidelines-owning-memory): see above
    return *table;
  }

  const Known& find_or_add(std::string_view text) {
    {
      const std::shared_lock lock(mutex_);
      const auto at = known_.find(text);
      if (at != known_.end()) return *at->second;
    }
    const std::unique_lock lock(mutex_);
    const auto at = known_.find(text);
    if (at != known_.end()) return *at->second;
    TESSERA_CHECK(count_ < std::numeric_limits<LabelId>::max(), "label: a process must have at most ",
                  std::numeric_limits<LabelId>::max(), " memory labels, got one more, '", text,
                  "'; use fewer distinct texts");
    Known* const added = place_for(count_);
    *added = {std::string(text), count_};
    known_.emplace(added->text, added);
    published_.store(++count_, std::memory_order_release);
    return *added;
  }

  const std::string& text_of(LabelId id) {
    TESSERA_CHECK(id < published_.load(std::memory_order_acquire), "label: id must be that of a label, got ", id);
    const auto [page, offset] = split(id);
    return pages_[page].load(std::memory_order_acquire)[offset].text;
  }

 private:
  static constexpr std::size_t kFirstPage = 64;
  struct Place {
    std::size_t page;
    std::size_t offset;
  };

  LabelTable() { find_or_add(""); }

  static Place split(LabelId id) {
    std::size_t page = 0;
    std::size_t first = 0;
    std::size_t size = kFirstPage;
    for (; id >= first + size; ++page, size *= 2) first += size;
    return {page, id - first};
  }

  Known* place_for(LabelId id) {
    const auto [page, offset] = split(id);
    if (pages_[page].load(std::memory_order_relaxed) == nullptr) {
      pages_[page].store(new Known[kFirstPage << page], std::memory_order_release);
    }
    return pages_[page].load(std::memory_order_relaxed) + offset;
  }

  std::shared_mutex mutex_;
  std::unordered_map<std::string_view, const Known*> known_;  // views of the texts in the pages
  LabelId count_ = 0;
  std::atomic<LabelId> published_{0};
  std::array<std::atomic<Known*>, 32> pages_{};
};

// Recently used labels, so that a known text costs one comparison and no lock. The address, the length and the ends of
// a text select its entry: a label is nearly always a literal with a fixed address. The text itself is compared,
// because the bytes at an address may change. All threads share the entries, which hold only pointers into the table.
constexpr int kRecentBits = 8;
constinit std::array<std::atomic<const Known*>, std::size_t{1} << kRecentBits> recent{};

std::size_t entry_of(std::string_view text) {
  const auto address = reinterpret_cast<std::uintptr_t>(text.data());
  const std::uint64_t mixed = (address ^ (text.size() << 40)) * 0x9E3779B97F4A7C15u;
  return mixed >> (64 - kRecentBits);
}

}  // namespace

namespace detail {
constinit thread_local LabelId current_label = 0;
}

LabelId Label::id_of(std::string_view text) {
  if (text.empty()) return 0;
  std::atomic<const Known*>& entry = recent[entry_of(text)];
  const Known* known = entry.load(std::memory_order_acquire);
  if (known == nullptr || known->text != text) {
    known = &LabelTable::get().find_or_add(text);
    entry.store(known, std::memory_order_release);
  }
  return known->id;
}

const std::string& Label::text_of(LabelId id) { return LabelTable::get().text_of(id); }

Label::Label(std::string_view text) : previous_(detail::current_label) { detail::current_label = id_of(text); }

}  // namespace tessera::memory
