#include "tessera/analysis/report/detail/collective_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "tessera/analysis/detail/wording.h"
#include "tessera/base/dtype.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::size_t kMaxRows = 2000;

double itemsize_of(const std::string& dtype) {
  for (const DType each : kAllDTypes) {
    if (to_string(each) == dtype) return static_cast<double>(itemsize(each));
  }
  return 0;
}

// Bytes of one operation, and the factor for the slowest link.
struct Traffic {
  double nbytes = 0;
  double bus_nbytes = 0;
};

Traffic traffic_of(const RecordedOperation& operation, std::size_t ranks) {
  const auto n = static_cast<double>(std::max<std::size_t>(ranks, 1));
  const std::string& kind = operation.kind;
  double nbytes = std::max(static_cast<double>(operation.count), 0.0) * itemsize_of(operation.dtype);
  if (kind == "barrier") nbytes = 0;
  const bool is_spread =
      kind == "all_gather" || kind == "reduce_scatter" || kind == "all_to_all" || kind == "gather" || kind == "scatter";
  if (is_spread) nbytes *= n;
  double factor = 1;
  if (kind == "all_reduce") factor = 2 * (n - 1) / n;
  if (is_spread) factor = (n - 1) / n;
  return {nbytes, nbytes * factor};
}

// One collective over the ranks that reached it.
struct Meeting {
  std::size_t members = 0;
  std::size_t ended = 0;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::int64_t met_ns = 0;
  std::int64_t end_ns = 0;
};

struct Row {
  const Group* group = nullptr;
  std::size_t launches = 0;  // over ranks
  std::size_t unnumbered = 0;
  double nbytes = 0;      // over ranks
  double bus_nbytes = 0;  // over ranks
  double exposed_ns = 0;
  double wait_ns = 0;
  std::map<std::uint64_t, Meeting> meetings;
};

using RowKey = std::tuple<std::string, std::vector<int>, std::string, std::string>;

std::string operation_name(const CollectiveCall& launch) {
  const std::string& kind = launch.operations.front().kind;
  const bool is_mixed = std::any_of(launch.operations.begin(), launch.operations.end(),
                                    [&](const RecordedOperation& each) { return each.kind != kind; });
  return is_mixed ? "several" : visible(kind);
}

std::string dtype_name(const CollectiveCall& launch) {
  const std::string& dtype = launch.operations.front().dtype;
  const bool is_mixed = std::any_of(launch.operations.begin(), launch.operations.end(),
                                    [&](const RecordedOperation& each) { return each.dtype != dtype; });
  return is_mixed ? "several" : visible(dtype);
}

void take(Row& row, const Group& group, const CollectiveCall& launch, const BusyTimes* kernels) {
  row.group = &group;
  ++row.launches;
  for (const RecordedOperation& operation : launch.operations) {
    const Traffic traffic = traffic_of(operation, group.ranks.size());
    row.nbytes += traffic.nbytes;
    row.bus_nbytes += traffic.bus_nbytes;
  }
  const bool has_times = launch.begun_ns > 0 && launch.ended_ns >= launch.begun_ns;
  if (has_times) {
    row.exposed_ns += static_cast<double>(kernels == nullptr ? launch.ended_ns - launch.begun_ns
                                                             : free_ns(*kernels, launch.begun_ns, launch.ended_ns));
    if (launch.met_ns >= launch.begun_ns) row.wait_ns += static_cast<double>(launch.met_ns - launch.begun_ns);
  }
  if (launch.collective_number == 0 || launch.is_message()) {
    ++row.unnumbered;
    return;
  }
  if (launch.begun_ns <= 0) return;
  Meeting& meeting = row.meetings[launch.collective_number];
  meeting.first_ns = meeting.members == 0 ? launch.begun_ns : std::min(meeting.first_ns, launch.begun_ns);
  meeting.last_ns = std::max(meeting.last_ns, launch.begun_ns);
  meeting.met_ns = std::max(meeting.met_ns, launch.met_ns);
  meeting.end_ns = std::max(meeting.end_ns, launch.ended_ns);
  ++meeting.members;
  if (launch.stage == Stage::kDone) ++meeting.ended;
}

PageJson seconds(std::optional<double> ns) { return ns ? PageJson(*ns / 1e9) : PageJson(); }

PageJson row_json(const RowKey& key, const Row& row) {
  const auto& [name, ranks, operation, dtype] = key;
  double moving_ns = 0;
  std::size_t moved = 0;
  std::vector<double> skews;
  for (const auto& [collective_number, meeting] : row.meetings) {
    if (meeting.members == ranks.size()) skews.push_back(static_cast<double>(meeting.last_ns - meeting.first_ns));
    const std::int64_t from = std::max(meeting.met_ns, meeting.last_ns);
    if (meeting.ended != meeting.members || meeting.end_ns <= from) continue;
    moving_ns += static_cast<double>(meeting.end_ns - from);
    ++moved;
  }
  std::sort(skews.begin(), skews.end());
  // A collective counts once, for any number of ranks that recorded it.
  const std::size_t count = row.meetings.size() + row.unnumbered;
  const double share = row.launches == 0 ? 0 : 1 / static_cast<double>(row.launches);
  const double each_nbytes = row.nbytes * share;
  const double bus = moving_ns > 0 ? row.bus_nbytes * share * static_cast<double>(moved) / (moving_ns / 1e9) : 0;
  return {{"group", visible(name)},
          {"ranks", ranks.size()},
          {"members", text_of_ranks(ranks)},
          {"operation", operation},
          {"dtype", dtype},
          {"count", count},
          {"nbytes", each_nbytes * static_cast<double>(count)},
          {"bus_bandwidth", bus > 0 ? PageJson(bus) : PageJson()},
          {"skew_median", skews.empty() ? PageJson() : seconds(skews[skews.size() / 2])},
          {"skew_most", skews.empty() ? PageJson() : seconds(skews.back())},
          {"wait_seconds", seconds(row.wait_ns)},
          {"exposed_seconds", seconds(row.exposed_ns)}};
}

}  // namespace

PageJson collectives_json(const Evidence& evidence, const Spans& spans) {
  std::map<RowKey, Row> rows;
  for (const Rank& rank : evidence.ranks) {
    const auto kernels = spans.kernels.find(rank.rank);
    const BusyTimes* busy = kernels == spans.kernels.end() ? nullptr : &kernels->second;
    for (const Group& group : rank.groups) {
      for (const CollectiveCall& launch : group.launches) {
        if (launch.operations.empty() || launch.stage == Stage::kAsked) continue;
        RowKey key{group.name, group.ranks, operation_name(launch), dtype_name(launch)};
        if (rows.size() == kMaxRows && !rows.contains(key)) continue;
        take(rows[std::move(key)], group, launch, busy);
      }
    }
  }
  std::vector<std::pair<const RowKey*, const Row*>> order;
  for (const auto& [key, row] : rows) order.emplace_back(&key, &row);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second->exposed_ns > b.second->exposed_ns; });
  PageJson list = PageJson::array();
  for (const auto& [key, row] : order) list.push_back(row_json(*key, *row));
  return list;
}

}  // namespace tessera::analysis::detail
