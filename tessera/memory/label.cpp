#include "tessera/memory/label.h"

#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "tessera/base/error.h"

namespace tessera::memory {
namespace {

// All texts of the process, by number. A text is found by number without a lock: pages are never moved and each page is
// twice the size of the one before it, so that few pointers reach any number. Never destroyed: memory is freed, and
// labelled, until the very end of a process.
class LabelTable {
 public:
  static LabelTable& get() {
    static LabelTable* const table = new LabelTable;  // NOLINT(cppcoreguidelines-owning-memory): see above
    return *table;
  }

  LabelId id_of(std::string_view text) {
    {
      const std::shared_lock lock(mutex_);
      const auto at = ids_.find(text);
      if (at != ids_.end()) return at->second;
    }
    const std::unique_lock lock(mutex_);
    const auto at = ids_.find(text);
    if (at != ids_.end()) return at->second;
    TESSERA_CHECK(count_ < std::numeric_limits<LabelId>::max(), "there are too many memory labels in this process");
    const LabelId id = count_;
    std::string* const kept = place_for(id);
    *kept = text;
    ids_.emplace(*kept, id);
    published_.store(++count_, std::memory_order_release);
    return id;
  }

  const std::string& text_of(LabelId id) {
    TESSERA_CHECK(id < published_.load(std::memory_order_acquire), "there is no memory label with number ", id);
    const auto [page, offset] = split(id);
    return pages_[page].load(std::memory_order_acquire)[offset];
  }

 private:
  static constexpr std::size_t kFirstPage = 64;
  struct Place {
    std::size_t page;
    std::size_t offset;
  };

  LabelTable() { id_of(""); }

  static Place split(LabelId id) {
    std::size_t page = 0;
    std::size_t first = 0;
    std::size_t size = kFirstPage;
    for (; id >= first + size; ++page, size *= 2) first += size;
    return {page, id - first};
  }

  std::string* place_for(LabelId id) {
    const auto [page, offset] = split(id);
    if (pages_[page].load(std::memory_order_relaxed) == nullptr) {
      pages_[page].store(new std::string[kFirstPage << page], std::memory_order_release);
    }
    return pages_[page].load(std::memory_order_relaxed) + offset;
  }

  std::shared_mutex mutex_;
  std::unordered_map<std::string_view, LabelId> ids_;  // views of the texts in the pages
  LabelId count_ = 0;
  std::atomic<LabelId> published_{0};
  std::array<std::atomic<std::string*>, 32> pages_{};
};

// The labels a thread used last, so that a known text costs one comparison and no lock. Which entry a text goes to is
// told by its address, length and ends: a label is nearly always a literal, seen again and again at one address. The
// text itself is compared, since memory at one address may come to say something else.
struct RecentLabels {
  struct Entry {
    const char* text;  // as kept by the table
    std::size_t length;
    LabelId id;
  };
  static constexpr std::size_t kEntries = 64;
  Entry entries[kEntries];
};
constinit thread_local RecentLabels recent{};

std::size_t entry_of(std::string_view text) {
  const auto address = reinterpret_cast<std::uintptr_t>(text.data());
  const std::uint64_t mixed = (address ^ (text.size() << 40)) * 0x9E3779B97F4A7C15u;
  return mixed >> 58;
}
static_assert(RecentLabels::kEntries == 64, "the hash gives six bits");

}  // namespace

namespace detail {
constinit thread_local LabelId current_label = 0;
}

LabelId Label::id_of(std::string_view text) {
  if (text.empty()) return 0;
  RecentLabels::Entry& entry = recent.entries[entry_of(text)];
  if (entry.length == text.size() && std::memcmp(entry.text, text.data(), text.size()) == 0) return entry.id;
  const LabelId id = LabelTable::get().id_of(text);
  const std::string& kept = LabelTable::get().text_of(id);
  entry = {kept.data(), kept.size(), id};
  return id;
}

const std::string& Label::text_of(LabelId id) { return LabelTable::get().text_of(id); }

Label::Label(std::string_view text) : previous_(detail::current_label) { detail::current_label = id_of(text); }

}  // namespace tessera::memory
