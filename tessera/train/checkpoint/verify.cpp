#include "tessera/train/checkpoint/verify.h"

#include <algorithm>
#include <functional>
#include <span>

#include "tessera/base/error.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/train/checkpoint/detail/directory.h"
#include "tessera/train/checkpoint/detail/good_checkpoint.h"
#include "tessera/train/checkpoint/detail/hash.h"
#include "tessera/train/checkpoint/detail/input_file.h"
#include "tessera/train/checkpoint/detail/read_plan.h"

namespace tessera::train {
namespace {

using detail::CheckpointIndex;
using detail::FileShard;

constexpr std::size_t kChunk = std::size_t{1} << 20;

// Verifies one checkpoint.
class Verifier {
 public:
  Verifier(const std::filesystem::path& path, const CheckpointIndex& index, CheckpointVerdict& verdict,
           const OnProgress& on_progress)
      : path_(path),
        index_(index),
        ownership_(index.tensors, index.world_size),
        verdict_(verdict),
        on_progress_(on_progress) {}

  void check(int rank, CheckDepth depth) {
    const std::string name = detail::file_name(rank);
    try {
      const std::vector<FileShard> pieces = ownership_.pieces_of(Rank(rank));
      detail::check_file_size(index_, rank, pieces);
      const detail::InputFile file(path_, index_, rank);
      if (depth == CheckDepth::kSizes) return;
      file.check_header();
      const tensor::SafetensorsFile parsed(file.path());
      TESSERA_CHECK_AS(IoError, parsed.entries().size() == pieces.size(), "must hold the ", pieces.size(),
                       " tensors of its rank, got ", parsed.entries().size());
      const std::uint64_t begin = index_.files[static_cast<std::size_t>(rank)].header_nbytes;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const std::string what = fault_of(file, parsed, parsed.entries()[i], pieces[i], begin, Rank(rank));
        if (!what.empty()) verdict_.faults.push_back({name, index_.tensors[pieces[i].tensor].name, what});
        ++verdict_.shards;
      }
    } catch (const Error& error) {
      verdict_.faults.push_back({name, "", error.message()});
    }
  }

 private:
  std::string fault_of(const detail::InputFile& file, const tensor::SafetensorsFile& parsed,
                       const tensor::SafetensorsEntry& entry, const FileShard& piece, std::uint64_t begin, Rank rank) {
    const detail::SavedTensor& saved = index_.tensors[piece.tensor];
    const bool is_same = entry.name == saved.name && entry.dtype == saved.dtype && entry.begin_nbytes == piece.offset &&
                         entry.end_nbytes == piece.offset + piece.nbytes &&
                         entry.shape == detail::part_of(saved.layout, saved.shape, rank).shape;
    if (!is_same) return "not the shard of this rank in the index";
    const auto said = parsed.metadata().find("xxh3 of " + saved.name);
    if (said == parsed.metadata().end()) return "the header has no checksum of this shard";
    detail::Hasher hasher;
    for (std::uint64_t at = 0; at < piece.nbytes; at += kChunk) {
      const std::size_t count = std::min<std::uint64_t>(kChunk, piece.nbytes - at);
      buffer_.resize(kChunk);
      file.read(std::span(buffer_).first(count), begin + piece.offset + at);
      hasher.add(std::span(buffer_).first(count));
      done_ += count;
      if (on_progress_) on_progress_(done_, verdict_.info.nbytes);
    }
    return hasher.hex() == said->second ? "" : "the checksum is wrong: the shard is corrupt";
  }

  const std::filesystem::path& path_;
  const CheckpointIndex& index_;
  detail::Ownership ownership_;
  CheckpointVerdict& verdict_;
  const OnProgress& on_progress_;
  std::uint64_t done_ = 0;  // bytes of shards read so far
  std::vector<std::byte> buffer_;
};

}  // namespace

std::string to_string(const CheckpointFault& fault) {
  return fault.file + (fault.tensor.empty() ? "" : ", " + fault.tensor) + ": " + fault.what;
}

CheckpointVerdict verify_checkpoint(const std::filesystem::path& path, CheckDepth depth,
                                    const OnProgress& on_progress) {
  CheckpointVerdict verdict;
  verdict.info.path = path;
  try {
    const CheckpointIndex index = detail::load_index(path);
    verdict.info = detail::info_of(index, path);
    Verifier verifier(path, index, verdict, on_progress);
    for (int rank = 0; rank < index.world_size; ++rank) verifier.check(rank, depth);
  } catch (const Error& error) {
    verdict.faults.push_back({std::string(detail::kIndexName), "", error.message()});
  }
  return verdict;
}

std::vector<CheckpointVerdict> list_checkpoints(const std::filesystem::path& directory, CheckDepth depth,
                                                const OnProgress& on_progress) {
  const detail::DirectoryEntries entries = detail::entries_of(directory);
  std::vector<CheckpointVerdict> all;
  for (const detail::NamedStep& each : entries.checkpoints) {
    all.push_back(verify_checkpoint(each.path, depth, on_progress));
    all.back().info.step = each.step;  // also without an index
  }
  for (const detail::NamedStep& each : entries.partials) {
    CheckpointVerdict verdict;
    verdict.info.path = each.path;
    verdict.info.step = each.step;
    verdict.is_partial = true;
    verdict.faults.push_back({std::string(detail::kIndexName), "", "it is incomplete"});
    all.push_back(std::move(verdict));
  }
  std::ranges::stable_sort(all, std::greater<>(), [](const CheckpointVerdict& each) { return each.info.step; });
  return all;
}

CheckpointInfo open_checkpoint(const std::filesystem::path& path) {
  return detail::info_of(detail::load_index(path), path);
}

std::vector<CheckpointInfo> checkpoints_in(const std::filesystem::path& directory) {
  std::vector<CheckpointInfo> found;
  for (const detail::NamedStep& each : detail::entries_of(directory).checkpoints) {
    try {
      found.push_back(open_checkpoint(each.path));
    } catch (const Error&) {  // last_good() and verify_checkpoint() report the fault
    }
  }
  return found;
}

std::optional<CheckpointInfo> last_good(const std::filesystem::path& directory,
                                        const std::function<void(const std::string&)>& say,
                                        const OnProgress& on_progress) {
  const auto tell = [&](const detail::NamedStep& of, const std::string& why) {
    if (say) say(tessera::detail::concat("checkpoint ", of.path.string(), " is skipped: ", why, '\n'));
  };
  const detail::DirectoryEntries entries = detail::entries_of(directory);
  for (const detail::NamedStep& each : entries.partials) tell(each, "it is incomplete");
  for (const detail::NamedStep& each : entries.checkpoints) {
    const CheckpointVerdict verdict = verify_checkpoint(each.path, CheckDepth::kEverything, on_progress);
    if (verdict.faults.empty()) return verdict.info;
    tell(each, detail::first_fault(verdict));
  }
  return std::nullopt;
}

}  // namespace tessera::train
