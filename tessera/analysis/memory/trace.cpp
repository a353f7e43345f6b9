#include "tessera/analysis/memory/trace.h"

#include <array>
#include <charconv>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/regular_file.h"
#include "tessera/memory/policy.h"

namespace tessera::analysis {
namespace {

using memory::kMaxNbytes;

constexpr std::string_view kHeader = "Thread,Time,Action,Pointer,Size,Stream";
constexpr std::size_t kColumns = 6;
constexpr std::uint64_t kMaxCsvNbytes = std::uint64_t{1} << 34;  // maximum size of a log
enum Column : std::size_t { kThread, kTime, kAction, kPointer, kSize, kStream };
constexpr std::array<std::string_view, kColumns> kNames = {"Thread", "Time", "Action", "Pointer", "Size", "Stream"};

// The lines of a CSV, in sequence, split into fields in place.
class Lines {
 public:
  Lines(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  // Reads the next line into fields(); false at the end.
  bool next() {
    ++number_;
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    return true;
  }

  void split() {
    std::size_t at = 0;
    unquoted_.clear();
    for (std::size_t column = 0; column < kColumns; ++column) {
      if (column > 0) {
        if (at >= line_.size()) fail(line_.size(), "must have ", kColumns, " fields, got ", column);
        ++at;  // the comma
      }
      starts_[column] = at;
      fields_[column] = at < line_.size() && line_[at] == '"' ? quoted(at) : plain(at);
    }
    if (at != line_.size()) fail(at, "must have ", kColumns, " fields, got more");
  }

  [[nodiscard]] std::string_view field(Column column) const { return fields_[column]; }
  [[nodiscard]] std::string_view line() const { return line_; }
  [[nodiscard]] bool is_last() const { return rest_.empty(); }

  template <class... Parts>
  [[noreturn]] void fail_in(Column column, const Parts&... parts) const {
    fail(starts_[column], kNames[column], " '", shown(fields_[column]), "' ", parts...);
  }
  template <class... Parts>
  [[noreturn, gnu::cold]] void fail(std::size_t at, const Parts&... parts) const {
    TESSERA_THROW(InvalidArgument, name_, ": line ", number_, ", column ", at + 1, ": ", parts...);
  }

 private:
  static std::string shown(std::string_view text) {
    return text.size() <= 40 ? std::string(text) : std::string(text.substr(0, 40)) + "...";
  }

  std::string_view plain(std::size_t& at) const {
    const std::size_t comma = line_.find(',', at);
    const std::size_t end = comma == std::string_view::npos ? line_.size() : comma;
    const std::string_view field = line_.substr(at, end - at);
    at = end;
    return field;
  }

  std::string_view quoted(std::size_t& at) {
    const std::size_t open = at;
    std::string& text = unquoted_.emplace_back();
    for (++at;; ++at) {
      if (at >= line_.size()) fail(open, "this quote is not closed on the line");
      if (line_[at] != '"') {
        text += line_[at];
      } else if (at + 1 < line_.size() && line_[at + 1] == '"') {
        text += line_[at++];
      } else {
        break;
      }
    }
    ++at;
    if (at < line_.size() && line_[at] != ',') fail(at, "unexpected text after the closing quote");
    return text;
  }

  std::string_view rest_;
  std::string_view line_;
  const std::string& name_;
  std::uint64_t number_ = 0;
  std::array<std::string_view, kColumns> fields_ = {};
  std::array<std::size_t, kColumns> starts_ = {};
  std::deque<std::string> unquoted_;  // contents of quoted fields of this line
};

std::uint64_t read_pointer(const Lines& lines) {
  std::string_view text = lines.field(kPointer);
  if (text == "(nil)" || text == "nullptr") return 0;
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  std::uint64_t pointer = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), pointer, 16);
  if (problem != std::errc() || end != text.data() + text.size())
    lines.fail_in(kPointer, "is not a hexadecimal pointer");
  return pointer;
}

std::uint64_t read_size(const Lines& lines) {
  const std::string_view text = lines.field(kSize);
  std::uint64_t nbytes = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), nbytes);
  if (problem != std::errc() || end != text.data() + text.size()) lines.fail_in(kSize, "is not a size in bytes");
  return nbytes;
}

// Converts pointers to keys. A pointer that is live twice (a log slightly out of order) has a queue.
class CsvTrace {
 public:
  void allocate(std::uint64_t pointer, std::uint64_t nbytes, std::string_view stream) {
    const TraceOp op{true, trace_.keys++, nbytes, stream_number(stream)};
    trace_.ops.push_back(op);
    if (!live_.emplace(pointer, op).second) again_[pointer].push_back(op);
  }

  void free(std::uint64_t pointer) {
    const auto at = live_.find(pointer);
    if (at == live_.end()) {
      ++trace_.unknown_frees;
      return;
    }
    TraceOp op = at->second;
    op.is_alloc = false;
    trace_.ops.push_back(op);
    const auto next = again_.empty() ? again_.end() : again_.find(pointer);
    if (next == again_.end()) {
      live_.erase(at);
      return;
    }
    at->second = next->second.front();
    next->second.pop_front();
    if (next->second.empty()) again_.erase(next);
  }

  void failure() { ++trace_.logged_failures; }

  Trace take() && { return std::move(trace_); }
  void expect(std::size_t ops) { trace_.ops.reserve(ops); }

 private:
  std::uint32_t stream_number(std::string_view stream) {
    if (stream == last_stream_ && trace_.streams > 0) return last_number_;
    const auto at = streams_.try_emplace(std::string(stream), trace_.streams).first;
    if (at->second == trace_.streams) ++trace_.streams;
    last_stream_ = at->first;
    last_number_ = at->second;
    return last_number_;
  }

  Trace trace_;
  std::unordered_map<std::uint64_t, TraceOp> live_;
  std::unordered_map<std::uint64_t, std::deque<TraceOp>> again_;
  std::unordered_map<std::string, std::uint32_t> streams_;
  std::string_view last_stream_;  // a key of streams_
  std::uint32_t last_number_ = 0;
};

}  // namespace

Trace parse_rmm_csv(std::string_view text, const std::string& name) {
  Lines lines(text, name);
  if (!lines.next() || lines.line() != kHeader) {
    lines.fail(0, "the first line must be '", kHeader, "', as in RMM logs");
  }
  CsvTrace trace;
  trace.expect(text.size() / 40);
  while (lines.next()) {
    if (lines.line().empty() && lines.is_last()) break;
    lines.split();
    const std::string_view action = lines.field(kAction);
    const std::uint64_t pointer = read_pointer(lines);
    const std::uint64_t nbytes = read_size(lines);
    if (lines.field(kStream).empty()) lines.fail_in(kStream, "is empty");
    if (action == "allocate") {
      if (nbytes > kMaxNbytes) lines.fail_in(kSize, "is larger than any device");
      trace.allocate(pointer, nbytes, lines.field(kStream));
    } else if (action == "free") {
      trace.free(pointer);
    } else if (action == "allocate failure") {
      trace.failure();
    } else {
      lines.fail_in(kAction, "is not one of allocate, allocate failure, free");
    }
  }
  return std::move(trace).take();
}

Trace read_trace(const std::string& path, const std::string& device) {
  constexpr std::string_view kRecordMagic = "TSRECORD";
  if (RegularFile(path).read(0, kRecordMagic.size()) == kRecordMagic) return read_record_trace(path, device);
  const std::string text = read_regular_file(path, kMaxCsvNbytes);
  TESSERA_CHECK(std::string_view(text).starts_with("Thread,"), "log ", path,
                " is neither a record file nor a CSV that begins with '", kHeader, "'");
  return parse_rmm_csv(text, path);
}

}  // namespace tessera::analysis
