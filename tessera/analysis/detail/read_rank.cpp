#include "tessera/analysis/detail/read_rank.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "tessera/analysis/detail/field_values.h"
#include "tessera/analysis/detail/read_groups.h"
#include "tessera/analysis/memory/history_reader.h"
#include "tessera/base/error.h"
#include "tessera/device/launch_records.h"

namespace tessera::analysis::detail {
namespace {

using probe::RecordFile;
using probe::RowInfo;
using tessera::detail::concat;

constexpr std::size_t kMaxOwners = 8;

std::vector<const RowInfo*> whole_rows(const RecordFile& file, std::string_view kind,
                                       std::vector<std::string>& problems) {
  std::vector<const RowInfo*> rows;
  const probe::TableInfo* table = file.find_table(kind);
  if (table == nullptr) return rows;
  for (const RowInfo& row : table->claimed) {
    if (!row.is_torn) rows.push_back(&row);
  }
  const std::size_t torn = table->claimed.size() - rows.size();
  if (torn > 0) problems.push_back(concat(file.info().path, ": ", torn, " rows of table ", kind, " are torn; ignored"));
  return rows;
}

// Names of the threads by their numbers in the operating system.
std::map<std::string, std::string> thread_names(const RecordFile& file) {
  std::map<std::string, std::string> names;
  const probe::TableInfo* table = file.find_table("thread");
  if (table == nullptr) return names;
  for (const RowInfo& row : table->claimed) {
    if (!row.is_torn) names[text_in(row, "tid")] = text_in(row, "name");
  }
  return names;
}

// Returns the last failed request, or nullptr if as much was allocated later, or anything for the same stream: then the
// program handled the error.
const memory::TraceEntry* last_refusal(const memory::Snapshot& snapshot) {
  const memory::TraceEntry* refused = nullptr;
  for (const memory::TraceEntry& event : snapshot.trace) {
    if (event.action == memory::Action::kOutOfMemory) refused = &event;
    if (refused == nullptr || event.action != memory::Action::kAlloc) continue;
    const bool is_over = event.nbytes >= refused->nbytes || event.stream == refused->stream;
    if (is_over) refused = nullptr;
  }
  return refused;
}

}  // namespace

std::vector<GroupCreation> read_group_creations(const RecordFile& file, std::vector<std::string>& problems) {
  std::vector<GroupCreation> found;
  for (const RowInfo* row : whole_rows(file, "comm_making", problems)) {
    const std::uint64_t state = number_in(*row, "state");
    GroupCreation creation{.what = text_in(*row, "what"),
                           .from = text_in(*row, "from"),
                           .number = number_in(*row, "number"),
                           .ranks = parse_ranks(text_in(*row, "ranks")),
                           .since_ns = integer_in(*row, "when"),
                           .stage = state == 0   ? Stage::kBegun
                                    : state == 1 ? Stage::kDone
                                                 : Stage::kFailed};
    if (creation.what.empty() || creation.ranks.empty()) continue;
    if (creation.stage == Stage::kFailed) {
      const std::uint64_t kind = state - 2;
      creation.failure =
          kind <= static_cast<std::uint64_t>(ErrorKind::kIo) ? to_string(static_cast<ErrorKind>(kind)) : "exception";
    }
    found.push_back(std::move(creation));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const GroupCreation& a, const GroupCreation& b) { return a.since_ns < b.since_ns; });
  return found;
}

std::vector<OpenAnnotation> read_marks(const RecordFile& file, std::vector<std::string>& problems) {
  std::vector<std::tuple<std::string, std::uint64_t, OpenAnnotation>> found;
  const std::map<std::string, std::string> names = thread_names(file);
  for (const RowInfo* row : whole_rows(file, "record_mark", problems)) {
    OpenAnnotation annotation{.name = text_in(*row, "name"),
                              .value = integer_in(*row, "value"),
                              .thread = text_in(*row, "thread"),
                              .since_ns = integer_in(*row, "since"),
                              .tid = word_in(*row, "thread")};
    if (annotation.since_ns == 0) annotation.since_ns = row->since_ns;
    if (annotation.name.empty()) continue;
    const std::string thread = annotation.thread;
    if (const auto name = names.find(thread); name != names.end() && !name->second.empty())
      annotation.thread = name->second;
    found.emplace_back(thread, number_in(*row, "depth"), std::move(annotation));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::vector<OpenAnnotation> annotations;
  for (auto& each : found) annotations.push_back(std::move(std::get<2>(each)));
  return annotations;
}

// Returns the latest of each stream; those of less active streams may be overwritten.
std::vector<LastKernel> read_last_launches(const RecordFile& file) {
  std::vector<LastKernel> launches;
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;  // device and stream
  const std::vector<probe::RecordRef>& records = file.records();
  for (std::size_t i = records.size(); i-- > 0;) {
    const auto record = file.as<device::LaunchRecord>(records[i]);
    if (!record || !seen.emplace(record->device.value(), record->stream).second) continue;
    LastKernel launch{.name = file.string(record->label),
                      .device = file.string(record->device),
                      .stream = record->stream,
                      .when_ns = file.info().clock.wall_ns(records[i].ticks)};
    if (record->replay != 0) launch.name += concat(", replay ", record->replay);
    launches.push_back(std::move(launch));
  }
  return launches;
}

std::vector<DeviceMemory> read_memory(const RecordFile& file, std::vector<std::string>& problems) {
  std::vector<std::string> notes;
  std::map<std::string, DeviceMemory> devices;
  std::map<std::string, std::map<std::string, std::uint64_t>> owners;
  for (const memory::Snapshot& snapshot : read_history(file, &notes)) {
    DeviceMemory& device = devices[snapshot.device];
    device.device = snapshot.device;
    const memory::Totals totals = snapshot.totals();
    device.live_nbytes += totals.live_nbytes;
    device.mapped_nbytes += totals.reserved_nbytes;
    if (const memory::TraceEntry* refused = last_refusal(snapshot); refused != nullptr) {
      device.refused_nbytes = refused->nbytes;
      device.refused_ns = refused->time_ns;
    }
    for (const memory::SegmentView& segment : snapshot.segments) {
      for (const memory::BlockView& block : segment.blocks) {
        if (block.state != memory::BlockState::kLive || block.requested_nbytes == 0) continue;
        owners[snapshot.device][block.label.empty() ? "(no label)" : block.label] += block.requested_nbytes;
      }
    }
  }
  for (const std::string& note : notes) problems.push_back(concat(file.info().path, ": memory: ", note));
  std::vector<DeviceMemory> found;
  for (auto& [name, device] : devices) {
    device.owners.assign(owners[name].begin(), owners[name].end());
    std::stable_sort(device.owners.begin(), device.owners.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (device.owners.size() > kMaxOwners) device.owners.resize(kMaxOwners);
    found.push_back(std::move(device));
  }
  return found;
}

std::int64_t first_launch_ns(const RecordFile& file) {
  const auto first = std::find_if(file.records().begin(), file.records().end(),
                                  [&](const auto& ref) { return file.rings()[ref.ring].name == "launch"; });
  return first == file.records().end() ? 0 : file.info().clock.wall_ns(first->ticks);
}

std::int64_t last_record_ns(const RecordFile& file) {
  return file.records().empty() ? 0 : file.info().clock.wall_ns(file.records().back().ticks);
}

}  // namespace tessera::analysis::detail
