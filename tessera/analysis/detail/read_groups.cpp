#include "tessera/analysis/detail/read_groups.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "tessera/analysis/detail/field_values.h"
#include "tessera/analysis/detail/group_builder.h"
#include "tessera/analysis/detail/launch_file.h"
#include "tessera/base/error.h"
#include "tessera/comm/operation.h"

namespace tessera::analysis::detail {
namespace {

using probe::RecordFile;
using probe::RowInfo;
using tessera::detail::concat;

class GroupsReader {
 public:
  GroupsReader(const RecordFile& file, std::vector<std::string>& problems) : file_(file), problems_(problems) {
    for (const probe::RingInfo& ring : file.rings()) has_lost_ |= ring.name == "comm" && ring.overwritten > 0;
  }

  std::vector<Group> run(std::size_t last_launches) {
    const std::size_t skipped = skipped_records(last_launches);
    has_lost_ |= skipped > 0;
    for_each_row("comm_collective", [&](const RowInfo& row) { return add_collective(row); });
    for_each_row("comm_group", [&](const RowInfo& row) { return add_group(row); });
    add_gone_groups();
    read_ring(skipped);
    const auto add_to_group = [&](const RowInfo& row, bool (GroupBuilder::*add)(const RowInfo&)) {
      const auto found = groups_.find(word_in(row, "group"));
      return found == groups_.end() || (found->second.*add)(row);
    };
    for_each_row("comm_asked", [&](const RowInfo& row) { return add_to_group(row, &GroupBuilder::add_asked_row); });
    for_each_row("comm_running", [&](const RowInfo& row) { return add_to_group(row, &GroupBuilder::add_running_row); });
    for_each_row("comm_replay", [&](const RowInfo& row) { return add_to_group(row, &GroupBuilder::add_replay_row); });
    for_each_row("comm_signal", [&](const RowInfo& row) { return add_to_group(row, &GroupBuilder::add_signal_row); });
    if (senseless_ > 0) problem(concat(senseless_, " records or rows of communication are invalid; ignored"));
    std::vector<Group> groups;
    for (auto& [number, builder] : groups_) groups.push_back(builder.finish(last_launches));
    return groups;
  }

 private:
  void problem(const std::string& what) { problems_.push_back(concat(file_.info().path, ": ", what)); }

  template <class Add>
  void for_each_row(std::string_view kind, Add add) {
    const probe::TableInfo* table = file_.find_table(kind);
    if (table == nullptr) return;
    std::size_t torn = 0;
    for (const RowInfo& row : table->claimed) {
      torn += row.is_torn ? 1 : 0;
      if (!row.is_torn && !add(row)) ++senseless_;
    }
    if (torn > 0) problem(concat(torn, " rows of table ", kind, " are torn; ignored"));
    if (kind == "comm_group" && table->refused > 0)
      problem(concat(table->refused, " groups did not fit table ", kind, "; they are unknown"));
  }

  bool add_collective(const RowInfo& row) {
    const std::uint64_t kind = number_in(row, "kind");
    ProgramCollective collective{text_in(row, "name"), number_in(row, "reduces") != 0,
                                 number_in(row, "is_rooted") != 0};
    constexpr std::uint64_t kFirst = comm::kFirstCustomOpKind;
    if (collective.name.empty() || kind < kFirst || kind >= comm::kMaxOpKinds) return false;
    collectives_.insert_or_assign(kind, std::move(collective));
    return true;
  }

  // A destroyed group has no row, but possibly a record of its creation. The last one of a name counts.
  void add_gone_groups() {
    std::map<std::string, probe::Record> made;
    for (const probe::RecordRef& ref : file_.records()) {
      if (!is_comm(ref) || kind_of(ref) != "comm_group") continue;
      probe::Record record = file_.read(ref);
      made.insert_or_assign(text_in(record, "name"), std::move(record));
    }
    for (const auto& [number, builder] : groups_) made.erase(builder.name());
    for (const auto& [name, record] : made) senseless_ += add_group(record) ? 0 : 1;
  }

  template <class Holder>
  bool add_group(const Holder& row) {
    Group group{.name = text_in(row, "name"),
                .backend = text_in(row, "backend"),
                .ranks = parse_ranks(text_in(row, "ranks")),
                .rank = static_cast<int>(integer_in(row, "rank"))};
    const auto size = static_cast<int>(group.ranks.size());
    if (group.name.empty() || size == 0 || group.rank < 0 || group.rank >= size) return false;
    groups_.try_emplace(word_in(row, "group"), std::move(group), collectives_, has_lost_);
    return true;
  }

  [[nodiscard]] bool is_comm(const probe::RecordRef& ref) const { return file_.rings()[ref.ring].name == "comm"; }

  // By its number in the file: reading a record takes longer.
  const std::string& kind_of(const probe::RecordRef& ref) {
    const auto [found, is_new] = kinds_.try_emplace(ref.kind);
    if (is_new) found->second = file_.read(ref).kind;
    return found->second;
  }

  // A ring holds many more records than needed, and reading one takes time. A launch has at least three.
  [[nodiscard]] std::size_t skipped_records(std::size_t last_launches) const {
    const auto records = static_cast<std::size_t>(
        std::count_if(file_.records().begin(), file_.records().end(), [&](const auto& ref) { return is_comm(ref); }));
    constexpr std::size_t kEach = 8;
    return last_launches < records / kEach ? records - last_launches * kEach : 0;
  }

  void read_ring(std::size_t skipped) {
    using Add = bool (GroupBuilder::*)(const probe::Record&);
    static constexpr std::pair<std::string_view, Add> kKinds[] = {{"comm_operation", &GroupBuilder::add_operation},
                                                                  {"comm_begin", &GroupBuilder::add_begin},
                                                                  {"comm_replay", &GroupBuilder::add_replay},
                                                                  {"comm_end", &GroupBuilder::add_end},
                                                                  {"comm_signal", &GroupBuilder::add_signal}};
    for (const probe::RecordRef& ref : file_.records()) {
      if (!is_comm(ref)) continue;
      if (skipped > 0) {
        --skipped;
        continue;
      }
      const probe::Record record = file_.read(ref);
      const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                      [&](const auto& each) { return each.first == record.kind; });
      if (kind == std::end(kKinds)) continue;
      const auto group = groups_.find(word_in(record, "group"));
      if (group != groups_.end() && !(group->second.*kind->second)(record)) ++senseless_;
    }
  }

  const RecordFile& file_;
  std::vector<std::string>& problems_;
  bool has_lost_ = false;
  std::size_t senseless_ = 0;
  std::map<std::uint16_t, std::string> kinds_;
  ProgramCollectives collectives_;
  std::map<std::uint32_t, GroupBuilder> groups_;  // by number
};

}  // namespace

std::vector<int> parse_ranks(const std::string& text) {
  std::vector<int> ranks;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    int first = 0;
    const auto [after_first, error] = std::from_chars(at, end, first);
    if (error != std::errc() || first < 0 || first >= kMaxRanks) return {};
    at = after_first;
    int last = first;
    if (at != end && *at == '-') {
      const auto [after_last, last_error] = std::from_chars(at + 1, end, last);
      if (last_error != std::errc() || last < first || last >= kMaxRanks) return {};
      at = after_last;
    }
    if (ranks.size() + static_cast<std::size_t>(last - first) >= static_cast<std::size_t>(kMaxRanks)) return {};
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
    if (at == end) return ranks;
    if (*at++ != ',') return {};
  }
  return {};
}

std::vector<Group> read_groups(const RecordFile& file, std::size_t last_launches, std::vector<std::string>& problems) {
  return GroupsReader(file, problems).run(last_launches);
}

}  // namespace tessera::analysis::detail
