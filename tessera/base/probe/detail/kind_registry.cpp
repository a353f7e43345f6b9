#include "tessera/base/probe/detail/kind_registry.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/probe/detail/open_recorders.h"
#include "tessera/base/probe/layout.h"

namespace tessera::probe::detail {

// Entries are stored as the bytes that go into the file, including the check.
class KindRegistry {
 public:
  static KindRegistry& instance() {
    static auto* only = new KindRegistry;  // never destroyed: threads may outlive main
    return *only;
  }

  std::uint16_t add(const KindInfo& info) {
    const std::lock_guard lock(mutex_);
    auto entry = encode(info);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      number_entry(entry, i + 1);
      if (entries_[i] == entry) return static_cast<std::uint16_t>(i + 1);
    }
    TESSERA_CHECK(entries_.size() < 0xffff, "record kinds: must be at most 65535, exceeded at ", info.name);
    number_entry(entry, entries_.size() + 1);
    entries_.push_back(entry);
    for (SchemaSection* section : sections_) append(*section, entry);
    return static_cast<std::uint16_t>(entries_.size());
  }

  void follow(SchemaSection& section) {
    const std::lock_guard lock(mutex_);
    for (const auto& entry : entries_) append(section, entry);
    sections_.push_back(&section);
    section.following_ = true;
  }

  std::mutex& mutex() { return mutex_; }

  void leave(SchemaSection& section) {
    const std::lock_guard lock(mutex_);
    std::erase(sections_, &section);
  }

 private:
  using Entry = std::vector<std::uint64_t>;

  static Entry encode(const KindInfo& info) {
    const std::size_t nbytes = sizeof(SchemaEntry) + info.fields.size() * sizeof(FieldEntry);
    Entry entry(nbytes / 8);
    SchemaEntry head{};
    head.field_count = static_cast<std::uint16_t>(info.fields.size());
    head.payload_bytes = info.nbytes;
    put_text(head.name, info.name);
    std::memcpy(entry.data(), &head, sizeof head);
    auto* at = reinterpret_cast<std::byte*>(entry.data()) + sizeof head;
    for (const FieldInfo& field : info.fields) {
      FieldEntry out{};
      put_text(out.name, field.name);
      out.type = static_cast<std::uint16_t>(field.type);
      out.offset = field.offset;
      out.nbytes = field.nbytes;
      std::memcpy(at, &out, sizeof out);
      at += sizeof out;
    }
    return entry;
  }

  static void number_entry(Entry& entry, std::size_t number) {
    const auto narrow = static_cast<std::uint16_t>(number);
    std::memcpy(reinterpret_cast<std::byte*>(entry.data()) + offsetof(SchemaEntry, number), &narrow, sizeof narrow);
    entry[0] = words_check(entry.data() + 1, entry.size() - 1, 0);
  }

  // If there is no space, records of the kind are still written, and read as plain words.
  static void append(SchemaSection& section, const Entry& entry) {
    const std::size_t nbytes = entry.size() * 8;
    if (static_cast<std::size_t>(section.end_ - section.at_) < nbytes) return;
    std::memcpy(section.at_ + 8, entry.data() + 1, nbytes - 8);
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(section.at_))
        .store(entry[0], std::memory_order_release);
    section.at_ += nbytes;
  }

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<SchemaSection*> sections_;
};

void SchemaSection::follow_registry() { KindRegistry::instance().follow(*this); }

SchemaSection::~SchemaSection() {
  if (following_) KindRegistry::instance().leave(*this);
}

void lock_kind_registry() { KindRegistry::instance().mutex().lock(); }
void unlock_kind_registry() { KindRegistry::instance().mutex().unlock(); }

std::uint16_t register_kind(const KindInfo& info) { return KindRegistry::instance().add(info); }

}  // namespace tessera::probe::detail
