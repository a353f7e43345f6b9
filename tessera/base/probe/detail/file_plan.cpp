// Division of a record file: a small part for names, an eighth for state, the rest for the rings by weight.
#include <algorithm>

#include "tessera/base/probe/detail/record_store.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::probe::detail {
namespace {

std::uint64_t page_multiple(std::uint64_t nbytes) { return nbytes & ~std::uint64_t{4095}; }

void add_section(FilePlan& plan, std::string_view name, SectionType type, std::uint32_t number, std::uint64_t& at,
                 std::uint64_t nbytes) {
  Section& section = plan.sections[plan.section_count++];
  put_text(section.name, name);
  section.type = type;
  section.number = number;
  section.offset = at;
  section.nbytes = nbytes;
  at += nbytes;
}

}  // namespace

FilePlan plan_file(std::uint64_t nbytes) {
  FilePlan plan{};
  plan.file_bytes = nbytes;
  std::uint64_t at = kHeaderBytes;
  const auto share = [&](std::uint64_t part, std::uint64_t least, std::uint64_t most) {
    return page_multiple(std::clamp(nbytes / part, least, most));
  };
  add_section(plan, "schemas", SectionType::kSchemas, 0, at, share(64, 16 << 10, 128 << 10));
  add_section(plan, "strings", SectionType::kStrings, 0, at, share(16, 16 << 10, 8 << 20));
  add_section(plan, "tables", SectionType::kTables, 0, at, share(6, 64 << 10, std::uint64_t{1} << 30));
  std::uint64_t weights = 0;
  for (const RingShare& ring : kRingShares) weights += ring.weight;
  const std::uint64_t left = nbytes - at;
  for (std::uint32_t i = 0; i < kRingCount; ++i) {
    const std::uint64_t part = i + 1 < kRingCount ? page_multiple(left / weights * kRingShares[i].weight) : nbytes - at;
    add_section(plan, kRingShares[i].name, SectionType::kRing, i, at, part);
  }
  return plan;
}

}  // namespace tessera::probe::detail
