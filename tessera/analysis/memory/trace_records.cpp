// Reads the record file of a rank as a trace.
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tessera/analysis/memory/trace.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"
#include "tessera/memory/history.h"

namespace tessera::analysis {
namespace {

using memory::AllocRecord;
using memory::BlockRecord;
using memory::FreeRecord;
using memory::MemoryPoolRow;
using memory::OutOfMemoryRecord;

using probe::RecordFile;
using probe::RecordRef;

std::uint64_t number_in(const probe::RowInfo& row, std::string_view field) {
  const probe::Field* found = row.find(field);
  const auto* number = found == nullptr ? nullptr : std::get_if<std::uint64_t>(&found->value);
  return number == nullptr ? 0 : *number;
}

std::string text_in(const probe::RowInfo& row, std::string_view field) {
  const probe::Field* found = row.find(field);
  const auto* text = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  return text == nullptr ? std::string() : *text;
}

// The allocator of each pool, and the device of each allocator. A removed pool has no row; its records count for the
// selected allocator, unless a row names another one.
struct Allocators {
  std::map<std::uint64_t, std::uint64_t> of_pool;
  std::map<std::uint64_t, std::string> devices;

  explicit Allocators(const RecordFile& file) {
    const probe::TableInfo* table = file.find_table(MemoryPoolRow::kRecordName);
    if (table == nullptr) return;
    for (const probe::RowInfo& row : table->claimed) {
      of_pool[number_in(row, "number")] = number_in(row, "allocator");
      devices[number_in(row, "allocator")] = text_in(row, "device");
    }
  }

  // Returns the allocators of this device; without a name all, which must then be of one device.
  [[nodiscard]] std::set<std::uint64_t> chosen(const std::string& path, const std::string& device) const {
    std::set<std::string> names;
    std::set<std::uint64_t> fits;
    for (const auto& [number, name] : devices) {
      names.insert(name);
      if (device.empty() || name == device) fits.insert(number);
    }
    TESSERA_CHECK(device.empty() || !fits.empty(), "record file ", path, " has no allocator of '", device,
                  "'; choose one of ", names);
    TESSERA_CHECK(!device.empty() || names.size() <= 1, "record file ", path, " has the allocators of ", names,
                  "; name one of these");
    return fits;
  }
};

class RecordTrace {
 public:
  void allocate(std::uint64_t address, std::uint64_t nbytes, std::uint32_t stream) {
    if (live_.contains(address)) free(address, nbytes, stream);  // its record was torn
    seen_.insert(address);
    const TraceOp op{true, keys_++, nbytes, number_of(stream)};
    ops_.push_back(op);
    live_.emplace(address, op);
  }

  void free(std::uint64_t address, std::uint64_t nbytes, std::uint32_t stream) {
    if (!live_.contains(address)) was_live_before(address, nbytes, stream);
    const auto at = live_.find(address);
    if (at == live_.end()) {
      ++unknown_frees_;
      return;
    }
    TraceOp op = at->second;
    op.is_alloc = false;
    ops_.push_back(op);
    live_.erase(at);
  }

  // A live block without an allocation record was allocated before the oldest record.
  void was_live_before(std::uint64_t address, std::uint64_t nbytes, std::uint32_t stream) {
    if (live_.contains(address) || seen_.contains(address)) return;
    seen_.insert(address);
    const TraceOp op{true, keys_++, nbytes, number_of(stream)};
    before_.push_back(op);
    live_.emplace(address, op);
  }

  // Renumbers the keys in the order of the trace.
  Trace take() && {
    Trace trace;
    trace.ops = std::move(before_);
    trace.ops.insert(trace.ops.end(), ops_.begin(), ops_.end());
    trace.keys = keys_;
    trace.streams = static_cast<std::uint32_t>(streams_.size());
    trace.unknown_frees = unknown_frees_;
    std::vector<std::uint64_t> renamed(keys_);
    std::uint64_t next = 0;
    for (TraceOp& op : trace.ops) {
      if (op.is_alloc) renamed[op.key] = next++;
      op.key = renamed[op.key];
    }
    return trace;
  }

 private:
  std::uint32_t number_of(std::uint32_t stream) {
    return streams_.try_emplace(stream, static_cast<std::uint32_t>(streams_.size())).first->second;
  }

  std::vector<TraceOp> before_;
  std::vector<TraceOp> ops_;
  std::unordered_map<std::uint64_t, TraceOp> live_;
  std::unordered_set<std::uint64_t> seen_;  // addresses in any record
  std::unordered_map<std::uint32_t, std::uint32_t> streams_;
  std::uint64_t keys_ = 0;
  std::uint64_t unknown_frees_ = 0;
};

}  // namespace

Trace read_record_trace(const std::string& path, const std::string& device) {
  const RecordFile file = RecordFile::open(path);
  const Allocators allocators(file);
  const std::set<std::uint64_t> chosen = allocators.chosen(path, device);
  const auto is_chosen = [&](std::uint64_t pool) {
    const auto at = allocators.of_pool.find(pool);
    return at == allocators.of_pool.end() || chosen.contains(at->second);
  };
  RecordTrace trace;
  std::uint64_t failures = 0;
  for (const RecordRef& ref : file.records()) {
    if (const auto alloc = file.as<AllocRecord>(ref)) {
      if (is_chosen(alloc->pool)) trace.allocate(alloc->address, alloc->requested, alloc->stream);
    } else if (const auto freed = file.as<FreeRecord>(ref)) {
      if (is_chosen(freed->pool)) trace.free(freed->address, freed->requested, freed->stream);
    } else if (const auto block = file.as<BlockRecord>(ref)) {
      if (is_chosen(block->pool) && !block->is_pending)
        trace.was_live_before(block->address, block->requested, block->stream);
    } else if (const auto failed = file.as<OutOfMemoryRecord>(ref)) {
      failures += is_chosen(failed->pool) ? 1 : 0;
    }
  }
  Trace result = std::move(trace).take();
  result.logged_failures = failures;
  return result;
}

}  // namespace tessera::analysis
