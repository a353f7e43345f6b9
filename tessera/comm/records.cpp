#include "tessera/comm/records.h"

#include <cstdio>
#include <map>

namespace tessera::comm {
namespace {

using probe::RecordFile;
using probe::RowInfo;

std::uint64_t number_in(const RowInfo& row, std::string_view field) {
  const probe::Field* found = row.find(field);
  if (found == nullptr) return 0;
  if (const auto* number = std::get_if<std::uint64_t>(&found->value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&found->value)) return static_cast<std::uint64_t>(*number);
  return 0;
}
std::string text_in(const RowInfo& row, std::string_view field) {
  const probe::Field* found = row.find(field);
  return found == nullptr ? std::string() : probe::to_string(found->value);
}

// Returns the rows of a table by group. If a group has several, returns the first operation of its latest launch.
std::map<std::uint64_t, const RowInfo*> rows_of(const RecordFile& file, std::string_view kind) {
  std::map<std::uint64_t, const RowInfo*> rows;
  const probe::TableInfo* table = file.find_table(kind);
  if (table == nullptr) return rows;
  const auto is_later = [](const RowInfo& row, const RowInfo& than) {
    const std::uint64_t task = number_in(row, "task");
    const std::uint64_t other = number_in(than, "task");
    return task > other || (task == other && number_in(row, "place") < number_in(than, "place"));
  };
  for (const RowInfo& row : table->claimed) {
    const RowInfo*& known = rows[number_in(row, "group")];
    if (known == nullptr || is_later(row, *known)) known = &row;
  }
  return rows;
}

std::string group_name(const RecordFile& file, std::uint32_t group) {
  const auto rows = rows_of(file, CommGroupRow::kRecordName);
  const auto found = rows.find(group);
  return found == rows.end() ? "group " + std::to_string(group) + " (gone)" : text_in(*found->second, "name");
}

// The description of an operation, common to records and rows.
struct Told {
  OpKind kind;
  DType dtype;
  Reduction reduction;
  std::int64_t count;
  std::int32_t root;
  unsigned operations = 1;
};
// Formats an operation of a kind that programs use, by the row of its collective. The kind may be another collective in
// the process that reads.
std::string text_of_custom(const RecordFile& file, const Told& told) {
  const RowInfo* collective = nullptr;
  if (const probe::TableInfo* table = file.find_table(CollectiveRow::kRecordName)) {
    for (const RowInfo& row : table->claimed) {
      if (!row.is_torn && number_in(row, "kind") == static_cast<std::uint64_t>(told.kind)) collective = &row;
    }
  }
  std::string text = collective != nullptr ? text_in(*collective, "name")
                                           : "operation " + std::to_string(static_cast<unsigned>(told.kind));
  text.append("(").append(to_string(told.dtype)).append("[").append(std::to_string(told.count)).append("]");
  if (collective != nullptr && number_in(*collective, "reduces") != 0)
    text.append(", ").append(to_string(told.reduction));
  if (collective != nullptr && number_in(*collective, "is_rooted") != 0) text += ", root " + std::to_string(told.root);
  return text + ")";
}
std::string text_of_told(const RecordFile& file, const Told& told) {
  Operation operation{
      .kind = told.kind, .dtype = told.dtype, .root = told.root, .peer = told.root, .count = told.count};
  operation.reduction.kind = told.reduction;
  const bool is_custom = static_cast<int>(told.kind) >= kFirstCustomOpKind;
  std::string text = is_custom ? text_of_custom(file, told) : comm::text_of(operation);
  if (told.operations > 1) text += " and " + std::to_string(told.operations - 1) + " more";
  return text;
}
std::string told_in(const RecordFile& file, const RowInfo& row) {
  return text_of_told(file, {.kind = static_cast<OpKind>(number_in(row, "kind")),
                             .dtype = static_cast<DType>(number_in(row, "dtype")),
                             .reduction = static_cast<Reduction>(number_in(row, "reduction")),
                             .count = static_cast<std::int64_t>(number_in(row, "count")),
                             .root = static_cast<std::int32_t>(number_in(row, "root")),
                             .operations = static_cast<unsigned>(number_in(row, "operations"))});
}

// "collective 12", "message 3": the number by which ranks match operations.
std::string text_of_number(OpKind kind, std::uint64_t collective_number) {
  return (is_message(kind) ? "message " : "collective ") + std::to_string(collective_number);
}
std::string text_of_node(std::uint64_t node, std::uint64_t replay, std::uint64_t graph) {
  return "node " + std::to_string(node) + " in replay " + std::to_string(replay) + " of graph " + std::to_string(graph);
}
// "2.125 us"
std::string text_of_duration(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f us", static_cast<double>(ns) / 1e3);
  return text;
}

std::string how_it_ended(std::uint8_t failure) {
  if (failure == 0) return "finished";
  if (failure == 255) return "failed";
  return "failed: " + std::string(to_string(static_cast<ErrorKind>(failure - 1)));
}

}  // namespace

std::optional<std::string> text_of_record(const RecordFile& file, const probe::RecordRef& ref) {
  if (const auto asked = file.as<OperationRecord>(ref)) {
    std::string text = group_name(file, asked->group) + ": launch " + std::to_string(asked->task) + ", " +
                       text_of_told(file, {.kind = asked->kind,
                                           .dtype = asked->dtype,
                                           .reduction = asked->reduction,
                                           .count = asked->count,
                                           .root = asked->root}) +
                       " enqueued on " + file.string(asked->device) + " stream " + std::to_string(asked->stream);
    if (asked->label.value() != 0) text += ", label " + file.string(asked->label);
    return text;
  }
  if (const auto begun = file.as<BeginRecord>(ref)) {
    return group_name(file, begun->group) + ": #" + std::to_string(begun->sequence) + " " +
           text_of_told(file, {.kind = begun->kind,
                               .dtype = begun->dtype,
                               .reduction = begun->reduction,
                               .count = begun->count,
                               .root = begun->root,
                               .operations = begun->operations}) +
           " started (launch " + std::to_string(begun->task) + ", " +
           text_of_number(begun->kind, begun->collective_number) + ")";
  }
  if (const auto replay = file.as<ReplayRecord>(ref)) {
    return group_name(file, replay->group) + ": #" + std::to_string(replay->sequence) + " is " +
           text_of_node(replay->node, replay->replay, replay->graph) + " (launch " + std::to_string(replay->task) + ")";
  }
  if (const auto ended = file.as<EndRecord>(ref)) {
    std::string text = group_name(file, ended->group) + ": #" + std::to_string(ended->sequence) + " " +
                       how_it_ended(ended->failure) + " (launch " + std::to_string(ended->task) + ")";
    if (ended->met.value() != 0) {
      const auto ticks = static_cast<std::int64_t>(ref.ticks - ended->met.value());
      text += ", " + text_of_duration(file.info().clock.duration_ns(ticks)) + " after all ranks arrived";
    }
    return text;
  }
  return std::nullopt;
}

namespace {

// Describes the progress in the row of a group.
std::string text_of_running(const RecordFile& file, const RowInfo& row, const RowInfo* replay) {
  const bool runs = number_in(row, "begun") != number_in(row, "ended");
  std::string text =
      std::string(runs ? "; runs #" : "; ran #") + text_in(row, "begun") + " " + told_in(file, row) + " (" +
      text_of_number(static_cast<OpKind>(number_in(row, "kind")), number_in(row, "collective_number")) + ")";
  if (replay != nullptr && number_in(*replay, "sequence") == number_in(row, "begun")) {
    text += ", " + text_of_node(number_in(*replay, "node"), number_in(*replay, "replay"), number_in(*replay, "graph"));
  }
  if (runs && number_in(row, "met") != 0) text += ", all ranks arrived";
  if (number_in(row, "failed") != 0) text += "; #" + text_in(row, "failed") + " failed";
  return text;
}

}  // namespace

std::vector<std::string> text_of_groups(const RecordFile& file) {
  const auto asked = rows_of(file, CommAskedRow::kRecordName);
  const auto running = rows_of(file, CommRunningRow::kRecordName);
  const auto replays = rows_of(file, ReplayRecord::kRecordName);
  std::vector<std::string> lines;
  for (const auto& [number, group] : rows_of(file, CommGroupRow::kRecordName)) {
    std::string line = text_in(*group, "name") + " (ranks " + text_in(*group, "ranks") + ", " +
                       text_in(*group, "backend") + ", this is " + text_in(*group, "rank") + " of " +
                       text_in(*group, "size") + ")";
    if (const auto last = asked.find(number); last != asked.end() && number_in(*last->second, "task") != 0) {
      line += ": " + text_in(*last->second, "task") + " enqueued, the last " + told_in(file, *last->second);
    }
    if (const auto last = running.find(number); last != running.end() && number_in(*last->second, "begun") != 0) {
      const auto replay = replays.find(number);
      line += text_of_running(file, *last->second, replay != replays.end() ? replay->second : nullptr);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tessera::comm
