#include "tessera/memory/oom_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/bytes.h"
#include "tessera/memory/detail/block_sums.h"

namespace tessera::memory {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kTop = 5;

// Indented lines: a right-aligned size and its description.
class Lines {
 public:
  void add(int level, std::uint64_t nbytes, const std::string& what) {
    text_ += fmt::format("{:{}}{:>11}  {}\n", "", 2 * level, format_bytes(nbytes), what);
  }
  void add(const std::string& line) { text_ += line + "\n"; }
  // Adds the largest rows, and the rest as one so that the sum stays correct.
  template <class Row, class Name>
  void add_top(int level, const std::vector<Row>& rows, Name name) {
    std::uint64_t rest = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i < kTop) {
        add(level, rows[i].nbytes, name(rows[i]));
      } else {
        rest += rows[i].nbytes;
      }
    }
    if (rows.size() > kTop) add(level, rest, fmt::format("{} others", rows.size() - kTop));
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string label_name(const std::string& label) { return label.empty() ? "(no label)" : fmt::format("'{}'", label); }

std::string blocks(std::uint64_t count) { return fmt::format("{} block{}", count, count == 1 ? "" : "s"); }

std::string first_line(const OomFacts& facts, const OomDiagnosis& diagnosis) {
  const std::string whose = facts.label.empty() ? "" : fmt::format("label '{}', ", facts.label);
  std::string line =
      fmt::format("{}: cannot allocate {} ({}stream {}, {}): {}", facts.device, format_bytes(facts.requested_nbytes),
                  whose, facts.stream.value(), detail::pool_name(facts.snapshot, facts.pool), diagnosis.sentence);
  std::replace(line.begin(), line.end(), '\n', ' ');  // from a label
  return line;
}

void add_device(Lines& lines, const OomFacts& facts, const OomAccount& account) {
  if (account.total_nbytes == 0) {
    lines.add("the memory of the device is unknown");
    return;
  }
  lines.add(0, account.total_nbytes, "device");
  lines.add(1, account.free_nbytes, "free");
  if (facts.process_nbytes) lines.add(1, account.other_processes_nbytes, "other processes");
  lines.add(1, account.own_outside_nbytes, "this process, outside this allocator");
  if (facts.other_allocators_nbytes > 0) lines.add(2, facts.other_allocators_nbytes, "of it in other allocators");
  if (!facts.process_nbytes)
    lines.add(1, account.unattributed_nbytes, "other processes, or this one outside this allocator");
  if (account.excess_nbytes > 0)
    lines.add(1, account.excess_nbytes, "excess: the values of the driver and of the allocator disagree");
}

void add_reserved(Lines& lines, const Snapshot& snapshot, const Totals& totals) {
  lines.add(1, totals.reserved_nbytes, "this allocator");
  lines.add(2, totals.live_nbytes, "live in " + blocks(totals.live_blocks));
  lines.add_top(3, detail::live_by_label(snapshot), [](const auto& row) { return label_name(row.name); });
  lines.add(2, totals.rounding_nbytes, "rounding of these");
  lines.add(2, totals.pending_nbytes, "pending in " + blocks(totals.pending_blocks));
  lines.add_top(3, detail::pending_by_stream(snapshot), [](const auto& row) {
    return fmt::format("waiting for stream{} {}", row.streams.size() > 1 ? "s" : "", detail::stream_names(row.streams));
  });
  lines.add(2, totals.cached_nbytes, "cached in " + blocks(totals.cached_blocks));
  lines.add_top(3, detail::cached_by_pool_and_stream(snapshot), [&](const auto& row) {
    return fmt::format("{}, stream {}", detail::pool_name(snapshot, row.pool), row.stream.value());
  });
}

void add_pools(Lines& lines, const Snapshot& snapshot) {
  bool is_first = true;
  for (const PoolView& pool : snapshot.pools) {
    const Totals totals = snapshot.totals(pool.id);
    if (pool.id == PoolId{} || totals.reserved_nbytes == 0) continue;
    if (is_first) lines.add("private pools (included above):");
    is_first = false;
    lines.add(0, totals.reserved_nbytes,
              fmt::format("{}{}: live {}, rounding {}, pending {}, cached {}", detail::pool_name(snapshot, pool.id),
                          pool.owner.empty() ? "" : ", held by " + pool.owner, format_bytes(totals.live_nbytes),
                          format_bytes(totals.rounding_nbytes), format_bytes(totals.pending_nbytes),
                          format_bytes(totals.cached_nbytes)));
  }
}

void add_call_sites(Lines& lines, const Snapshot& snapshot) {
  const auto sites = detail::live_by_call_site(snapshot);
  if (sites.empty()) return lines.add("call sites: not recorded; enable them with Allocator::record_stacks(true)");
  lines.add("call sites with the most live memory:");
  for (std::size_t i = 0; i < std::min(kTop, sites.size()); ++i)
    lines.add(0, sites[i].nbytes, fmt::format("in {}: {}", blocks(sites[i].blocks), sites[i].name));
}

ordered_json to_json(PoolId id) { return ordered_json::array({id.graph, id.user}); }

ordered_json to_json(const Totals& totals) {
  return {{"reserved_nbytes", totals.reserved_nbytes}, {"live_nbytes", totals.live_nbytes},
          {"rounding_nbytes", totals.rounding_nbytes}, {"pending_nbytes", totals.pending_nbytes},
          {"cached_nbytes", totals.cached_nbytes},     {"live_blocks", totals.live_blocks},
          {"pending_blocks", totals.pending_blocks},   {"cached_blocks", totals.cached_blocks}};
}

ordered_json request_json(const OomFacts& facts, const OomDiagnosis& diagnosis) {
  return {{"message", first_line(facts, diagnosis)},
          {"cause", to_string(diagnosis.cause)},
          {"device", facts.device},
          {"requested_nbytes", facts.requested_nbytes},
          {"rounded_nbytes", facts.rounded_nbytes},
          {"growth_nbytes", facts.growth_nbytes},
          {"stream", facts.stream.value()},
          {"pool", to_json(facts.pool)},
          {"label", facts.label},
          {"in_capture", facts.is_in_capture},
          {"limit_nbytes", facts.limit_nbytes}};
}

ordered_json account_json(const OomFacts& facts, const OomAccount& account) {
  ordered_json json = {{"closes", account.closes()},
                       {"total_nbytes", account.total_nbytes},
                       {"free_nbytes", account.free_nbytes},
                       {"other_processes_nbytes", account.other_processes_nbytes},
                       {"own_outside_nbytes", account.own_outside_nbytes},
                       {"other_allocators_nbytes", facts.other_allocators_nbytes},
                       {"unattributed_nbytes", account.unattributed_nbytes},
                       {"excess_nbytes", account.excess_nbytes}};
  json.update(to_json(account.reserved));
  return json;
}

// Adds every row, not only the largest: programs compute sums.
void add_rows(ordered_json& json, const Snapshot& snapshot) {
  json["live_by_label"] = ordered_json::array();
  for (const auto& row : detail::live_by_label(snapshot))
    json["live_by_label"].push_back({{"label", row.name}, {"nbytes", row.nbytes}, {"blocks", row.blocks}});
  json["pending_by_stream"] = ordered_json::array();
  for (const auto& row : detail::pending_by_stream(snapshot)) {
    ordered_json streams = ordered_json::array();
    for (const StreamId stream : row.streams) streams.push_back(stream.value());
    json["pending_by_stream"].push_back({{"streams", streams}, {"nbytes", row.nbytes}, {"blocks", row.blocks}});
  }
  json["cached_by_pool_and_stream"] = ordered_json::array();
  for (const auto& row : detail::cached_by_pool_and_stream(snapshot)) {
    json["cached_by_pool_and_stream"].push_back(
        {{"pool", to_json(row.pool)}, {"stream", row.stream.value()}, {"nbytes", row.nbytes}, {"blocks", row.blocks}});
  }
  json["pools"] = ordered_json::array();
  for (const PoolView& pool : snapshot.pools) {
    ordered_json row = {{"pool", to_json(pool.id)}, {"name", pool.name}, {"owner", pool.owner}};
    row.update(to_json(snapshot.totals(pool.id)));
    json["pools"].push_back(row);
  }
  json["call_sites"] = ordered_json::array();
  for (const auto& row : detail::live_by_call_site(snapshot))
    json["call_sites"].push_back({{"stack", row.name}, {"nbytes", row.nbytes}, {"blocks", row.blocks}});
}

}  // namespace

std::string to_text(const OomFacts& facts) {
  const OomAccount account = account_of(facts);
  Lines lines;
  lines.add(first_line(facts, diagnose(facts)));
  lines.add(0, facts.requested_nbytes, fmt::format("requested ({} bytes)", facts.requested_nbytes));
  lines.add(0, facts.rounded_nbytes, "size of the block");
  lines.add(0, facts.growth_nbytes, "requested from the upstream");
  add_device(lines, facts, account);
  add_reserved(lines, facts.snapshot, account.reserved);
  add_pools(lines, facts.snapshot);
  const detail::BlockRange largest = detail::largest_range(facts.snapshot, nullptr, false);
  lines.add(0, largest.nbytes,
            largest.nbytes == 0 ? std::string("largest contiguous cached range: nothing is cached")
                                : fmt::format("largest contiguous cached range: {}, stream {}",
                                              detail::pool_name(facts.snapshot, largest.pool), largest.stream.value()));
  if (facts.limit_nbytes != 0) lines.add(0, facts.limit_nbytes, "limit set on this allocator");
  add_call_sites(lines, facts.snapshot);
  if (!facts.ladder.empty()) lines.add("tried:");
  for (const std::string& step : facts.ladder) lines.add("  " + step);
  return lines.text();
}

std::string to_json(const OomFacts& facts) {
  ordered_json json = request_json(facts, diagnose(facts));
  json["account"] = account_json(facts, account_of(facts));
  add_rows(json, facts.snapshot);
  const detail::BlockRange largest = detail::largest_range(facts.snapshot, nullptr, false);
  json["largest_cached_range"] = {{"address", largest.address},
                                  {"nbytes", largest.nbytes},
                                  {"pool", to_json(largest.pool)},
                                  {"stream", largest.stream.value()}};
  json["ladder"] = facts.ladder;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

OutOfMemoryError::OutOfMemoryError(SourcePlace place, const OomFacts& facts)
    : OutOfMemoryError(place, to_text(facts), to_json(facts), diagnose(facts).cause) {}

OutOfMemoryError::OutOfMemoryError(SourcePlace place, std::string report, std::string json, OomCause cause)
    : OutOfMemory(place, report.substr(0, report.find('\n'))),
      report_(std::move(report)),
      json_(std::move(json)),
      cause_(cause) {}

}  // namespace tessera::memory
