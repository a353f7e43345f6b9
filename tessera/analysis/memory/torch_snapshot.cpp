#include "tessera/analysis/memory/torch_snapshot.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <tuple>

#include "tessera/analysis/memory/detail/json_stream.h"
#include "tessera/analysis/memory/detail/viewer_replay.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/pickle.h"

namespace tessera::analysis {
namespace {

using memory::Action;
using memory::BlockState;
using memory::BlockView;
using memory::PoolId;
using memory::PoolView;
using memory::SegmentView;
using memory::Snapshot;
using memory::TraceEntry;

using detail::JsonStream;
using detail::ViewerEvent;

// PyTorch keeps requests of at most 1 MiB in segments of 2 MiB, which it calls small.
constexpr std::uint64_t kSmallSegment = std::uint64_t{2} << 20;

std::string_view state_name(BlockState state) {
  switch (state) {
    case BlockState::kLive: return "active_allocated";
    case BlockState::kPending: return "active_pending_free";
    case BlockState::kCached: break;
  }
  return "inactive";
}

std::string_view action_name(const ViewerEvent& event) {
  switch (event.entry->action) {
    case Action::kAlloc: return "alloc";
    case Action::kFreeRequested: return "free_requested";
    case Action::kFreeCompleted: return "free_completed";
    case Action::kMap: return event.is_fixed ? "segment_alloc" : "segment_map";
    case Action::kUnmap: return event.is_fixed ? "segment_free" : "segment_unmap";
    case Action::kOutOfMemory: return "oom";
    case Action::kSnapshot: break;
  }
  return "snapshot";
}

// "module+0x1f00" without symbols: the module represents the file.
Frame plain_frame(const std::string& text) {
  const auto plus = text.rfind("+0x");
  return {plus == std::string::npos ? "" : text.substr(0, plus), 0, text};
}

template <class Out>
class TorchWriter {
 public:
  TorchWriter(Out& out, const Symbols& symbols) : out_(out), symbols_(symbols) {}

  void write(std::span<const Snapshot> snapshots) {
    out_.begin_dict();
    out_.value("segments");
    segments(snapshots);
    out_.value("device_traces");
    out_.begin_list();
    for (const Snapshot& snapshot : snapshots) trace(snapshot);
    out_.end_list();
    out_.value("allocator_settings");
    settings(snapshots);
    out_.value("external_annotations");
    out_.begin_list();
    out_.end_list();
    out_.end_dict();
  }

 private:
  void segments(std::span<const Snapshot> snapshots) {
    std::vector<std::tuple<std::uint64_t, std::size_t, const SegmentView*>> all;
    for (std::size_t device = 0; device < snapshots.size(); ++device) {
      for (const SegmentView& segment : snapshots[device].segments) all.emplace_back(segment.address, device, &segment);
    }
    std::sort(all.begin(), all.end());
    out_.begin_list();
    for (const auto& [address, device, segment] : all) write_segment(device, *segment);
    out_.end_list();
  }

  void write_segment(std::size_t device, const SegmentView& segment) {
    std::uint64_t allocated = 0;
    std::uint64_t active = 0;
    std::uint64_t requested = 0;
    for (const BlockView& block : segment.blocks) {
      if (block.state == BlockState::kLive) allocated += block.nbytes;
      if (block.state == BlockState::kCached) continue;
      active += block.nbytes;
      requested += block.requested_nbytes;
    }
    out_.begin_dict();
    out_.entry("device", device);
    out_.entry("address", segment.address);
    out_.entry("total_size", segment.nbytes);
    out_.entry("allocated_size", allocated);
    out_.entry("active_size", active);
    out_.entry("requested_size", requested);
    out_.entry("stream", segment.stream.value());
    out_.entry("segment_type", segment.nbytes <= kSmallSegment ? "small" : "large");
    pool_id("segment_pool_id", segment.pool);
    out_.entry("is_expandable", segment.is_expandable);
    frames("", "");
    out_.value("blocks");
    out_.begin_list();
    for (const BlockView& block : segment.blocks) write_block(block);
    out_.end_list();
    out_.end_dict();
  }

  void write_block(const BlockView& block) {
    out_.begin_dict();
    out_.entry("address", block.address);
    out_.entry("size", block.nbytes);
    out_.entry("requested_size", block.requested_nbytes);
    out_.entry("state", state_name(block.state));
    frames(block.stack, block.label);
    out_.end_dict();
  }

  void trace(const Snapshot& snapshot) {
    out_.begin_list();
    for (const ViewerEvent& event : detail::viewer_events(snapshot)) {
      const TraceEntry& entry = *event.entry;
      out_.begin_dict();
      out_.entry("action", action_name(event));
      if (entry.action == Action::kOutOfMemory) {
        out_.entry("device_free", entry.device_free_nbytes);
      } else {
        out_.entry("addr", entry.address);
      }
      out_.entry("size", entry.nbytes);
      out_.entry("stream", entry.stream.value());
      out_.entry("time_us", entry.time_ns / 1000);
      out_.entry("compile_context", "N/A");
      out_.entry("user_metadata", entry.label);
      frames(entry.stack, entry.label);
      pool_id("pool_id", entry.pool);
      out_.end_dict();
    }
    out_.end_list();
  }

  void pool_id(const char* key, PoolId pool) {
    out_.value(key);
    out_.begin_tuple();
    out_.value(pool.graph);
    out_.value(pool.user);
    out_.end_tuple();
  }

  // A stack occurs in thousands of entries: a pickle writes it once and refers to it.
  void frames(const std::string& stack, const std::string& label) {
    out_.value("frames");
    if constexpr (std::is_same_v<Out, PickleWriter>) {
      const auto key = stack.empty() ? std::pair(false, label) : std::pair(true, stack);
      const auto found = written_.find(key);
      if (found != written_.end()) return out_.reference(found->second);
      written_.emplace(key, out_.begin_shared_list());
    } else {
      out_.begin_list();
    }
    for (const std::string& text : split_stack(stack)) {
      const auto found = symbols_.find(text);
      write_frame(found != symbols_.end() ? found->second : plain_frame(text));
    }
    if (stack.empty() && !label.empty()) write_frame({"label", 0, label});
    out_.end_list();
  }

  void write_frame(const Frame& frame) {
    out_.begin_dict();
    out_.entry("filename", frame.filename);
    out_.entry("line", frame.line);
    out_.entry("name", frame.name);
    out_.end_dict();
  }

  // Writes the keys of PyTorch that apply here, and Tessera settings under a separate key.
  void settings(std::span<const Snapshot> snapshots) {
    bool is_cut = false;
    bool is_expandable = false;
    std::size_t most = 0;
    for (const Snapshot& snapshot : snapshots) {
      is_cut = is_cut || snapshot.trace_is_cut;
      most = std::max(most, snapshot.trace.size());
      for (const SegmentView& segment : snapshot.segments) is_expandable = is_expandable || segment.is_expandable;
    }
    out_.begin_dict();
    out_.entry("PYTORCH_CUDA_ALLOC_CONF", "");
    out_.entry("max_split_size", -1);
    out_.entry("garbage_collection_threshold", 0.0);
    out_.entry("expandable_segments", is_expandable);
    out_.entry("pinned_num_register_threads", 1);
    out_.entry("release_lock_on_cudamalloc", false);
    out_.entry("pinned_use_cuda_host_register", false);
    out_.value("roundup_power2_divisions");
    out_.begin_dict();
    out_.end_dict();
    out_.entry("graph_capture_record_stream_reuse", true);
    out_.entry("trace_alloc_max_entries", most);
    out_.entry("trace_alloc_overflowed", is_cut);
    out_.value("tessera");
    out_.begin_list();
    for (const Snapshot& snapshot : snapshots) own_settings(snapshot);
    out_.end_list();
    out_.end_dict();
  }

  void own_settings(const Snapshot& snapshot) {
    out_.begin_dict();
    out_.entry("device", snapshot.device);
    out_.value("pools");
    out_.begin_list();
    for (const PoolView& pool : snapshot.pools) {
      out_.begin_dict();
      pool_id("pool_id", pool.id);
      out_.entry("name", pool.name);
      out_.entry("owner", pool.owner);
      out_.end_dict();
    }
    out_.end_list();
    out_.value("policy");
    out_.begin_dict();
    for (const auto& [name, value] : snapshot.settings) out_.entry(name, value);
    out_.end_dict();
    out_.end_dict();
  }

  Out& out_;
  const Symbols& symbols_;
  std::map<std::pair<bool, std::string>, PickleWriter::PickleRef> written_;  // frame lists, by stack or label
};

}  // namespace

std::vector<std::string> split_stack(const std::string& stack) {
  std::vector<std::string> frames;
  std::istringstream words(stack);
  std::string frame;
  for (std::string word; words >> word;) {
    frame += (frame.empty() ? "" : " ") + word;  // the path of a module may contain spaces
    if (word.find("+0x") == std::string::npos) continue;
    frames.push_back(std::move(frame));
    frame.clear();
  }
  if (!frame.empty()) frames.push_back(std::move(frame));
  return frames;
}

void write_torch_snapshot(std::ostream& out, std::span<const Snapshot> snapshots, TorchFormat format,
                          const Symbols& symbols) {
  for (const Snapshot& snapshot : snapshots) {
    const std::string problem = snapshot.inconsistency();
    TESSERA_CHECK(problem.empty(), "snapshot of ", snapshot.device, ": ", problem);
  }
  if (format == TorchFormat::kPickle) {
    PickleWriter writer(out);
    TorchWriter<PickleWriter>(writer, symbols).write(snapshots);
    writer.finish();
    return;
  }
  JsonStream writer(out);
  TorchWriter<JsonStream>(writer, symbols).write(snapshots);
  out << '\n';
  out.flush();
  TESSERA_CHECK_AS(IoError, out.good(), "snapshot: writing to the stream failed");
}

void write_torch_snapshot_file(const std::string& path, std::span<const Snapshot> snapshots, TorchFormat format,
                               const Symbols& symbols, FileKind kind) {
  AtomicFile file(path, kind);
  try {
    write_torch_snapshot(file.stream(), snapshots, format, symbols);
  } catch (const IoError&) {
    file.commit();  // throws the error of the write
    throw;
  }
  file.commit();
}

}  // namespace tessera::analysis
