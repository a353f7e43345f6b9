// Random states saved by random worlds must be read back unchanged by other worlds. The same checkpoint is corrupted at
// random, with checksums repaired or not. It must be rejected with a Tessera error, or be read without accesses out of
// bounds. Without repaired checksums, corruption must be detected.
//   train_checkpoint_fuzz [--runs N] [--seed S] [--seconds T]
#include <cstdlib>
#include <filesystem>
#include <random>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/train/checkpoint/detail/directory.h"
#include "tessera/train/checkpoint/detail/fill.h"
#include "tessera/train/checkpoint/detail/shard_file.h"
#include "tessera/train/checkpoint/diff.h"
#include "tessera/train/checkpoint/reshard.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"
#include "tessera/train/checkpoint/verify.h"

namespace tessera::train {
namespace {

using detail::CheckpointIndex;
using detail::SavedTensor;
using layout::Layout;
using layout::Mesh;
using Random = std::mt19937_64;
using Json = nlohmann::ordered_json;

std::int64_t below(Random& random, std::int64_t end) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
}

// Returns a mesh of up to three axes; random_layout() returns a layout for a tensor of these dimensions.
Mesh random_mesh(Random& random) {
  std::vector<layout::AxisSpec> axes;
  const char* const names[] = {"dp", "fsdp", "tp"};
  for (const char* name : names) {
    if (random() % 3 != 0) axes.push_back({.name = name, .size = 1 + below(random, 3)});
  }
  if (axes.empty()) axes.push_back({.name = "fsdp", .size = 2});
  return Mesh::create(axes);
}

Layout random_layout(const Mesh& mesh, const Shape& shape, Random& random) {
  std::vector<layout::Placement> placements;
  for (int i = 0; i < mesh.ndim(); ++i) {
    const bool is_sharded = shape.ndim() > 0 && random() % 4 != 0;
    placements.push_back(is_sharded ? layout::Shard(static_cast<int>(below(random, shape.ndim())))
                                    : layout::Replicate());
  }
  return Layout::create(mesh, placements);
}

std::vector<SavedTensor> random_tensors(const Mesh& mesh, Random& random) {
  const DType dtypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kBool, DType::kC64, DType::kU16};
  std::vector<SavedTensor> tensors;
  for (std::int64_t count = below(random, 5); count >= 0; --count) {
    SavedTensor tensor;
    tensor.name = "t" + std::to_string(count);
    tensor.dtype = dtypes[random() % std::size(dtypes)];
    std::vector<std::int64_t> dims;
    for (std::int64_t d = below(random, 4); d > 0; --d) dims.push_back(random() % 16 == 0 ? 0 : 1 + below(random, 9));
    tensor.shape = Shape(std::span<const std::int64_t>(dims));
    if (random() % 5 != 0) tensor.layout = random_layout(mesh, tensor.shape, random);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Returns the elements of a global tensor.
std::string whole_of(const SavedTensor& tensor, std::size_t number) {
  std::string bytes(nbytes(tensor.shape, tensor.dtype), '\0');
  const std::size_t item = itemsize(tensor.dtype);
  for (std::int64_t i = 0; i < tensor.shape.numel(); ++i) {
    const std::uint64_t bits = testing::known_bits(number, i, 1);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * item, &bits, item);
  }
  return bytes;
}

// Returns the shard of `rank` element by element, by the definition of the layout.
std::string part_of_whole(const SavedTensor& tensor, const Layout& layout, const std::string& whole, Rank rank) {
  if (!layout) return whole;
  const Shape local = layout::local_shape(layout, tensor.shape, rank);
  const std::size_t item = itemsize(tensor.dtype);
  std::string bytes;
  if (local.numel() == 0) return bytes;
  std::vector<layout::IndexMap> maps;
  for (int d = 0; d < tensor.shape.ndim(); ++d) maps.push_back(layout::index_map(layout, tensor.shape, d, rank));
  for (std::int64_t flat = 0; flat < local.numel(); ++flat) {
    std::int64_t rest = flat;
    std::int64_t place = 0;
    std::int64_t step = 1;
    for (std::size_t d = local.size(); d-- > 0;) {
      place += maps[d].global(rest % local[d]) * step;
      rest /= local[d];
      step *= tensor.shape[d];
    }
    bytes.append(whole, static_cast<std::size_t>(place) * item, item);
  }
  return bytes;
}

// Writes a checkpoint as its ranks would, without ranks.
CheckpointIndex write_checkpoint(const std::filesystem::path& directory, std::vector<SavedTensor> tensors,
                                 int world_size) {
  CheckpointIndex index;
  index.step = 5;
  index.world_size = world_size;
  index.tensors = std::move(tensors);
  index.texts = {{"position", "12"}};
  const detail::Ownership ownership(index.tensors, world_size);
  std::filesystem::create_directories(directory);
  detail::make_partial(directory, 5);
  for (int rank = 0; rank < world_size; ++rank) {
    const detail::ShardPlan plan = detail::plan_shard(index.tensors, ownership, 5, rank);
    std::string elements;
    for (const detail::FileShard& piece : plan.pieces) {
      const SavedTensor& tensor = index.tensors[piece.tensor];
      elements += part_of_whole(tensor, tensor.layout, whole_of(tensor, piece.tensor), Rank(rank));
    }
    const std::string path = (detail::partial_of(directory, 5) / detail::file_name(rank)).string();
    index.files.push_back(detail::write_shard(path, index.tensors, plan, 5, rank, std::as_bytes(std::span(elements))));
  }
  std::ofstream(detail::partial_of(directory, 5) / detail::kIndexName) << detail::write_index(index);
  detail::put_in_place(directory, 5);
  return index;
}

// Reads all shards of a rank. Returns the fault; empty if none.
std::string try_load(const std::filesystem::path& path, const std::vector<Layout>& layouts, Rank rank, bool is_sound) {
  const CheckpointIndex index = detail::load_index(path);
  detail::ReadPlanner planner(index);
  std::vector<detail::Wanted> wanted;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    wanted.push_back({t, t < layouts.size() ? layouts[t] : Layout()});
    if (wanted.back().layout) layout::check_fits(wanted.back().layout, index.tensors[t].shape);
  }
  const detail::ReadPlan plan = planner.plan(wanted, rank);
  std::vector<std::vector<std::byte>> parts;  // exact sizes, so that a sanitizer detects overruns
  std::vector<detail::ShardTarget> targets;
  for (const detail::Wanted& each : wanted) {
    const SavedTensor& tensor = index.tensors[each.tensor];
    const Shape shape = each.layout ? layout::local_shape(each.layout, tensor.shape, rank) : tensor.shape;
    // The plan rejects a tensor without bytes in any file, before memory is allocated.
    parts.emplace_back(nbytes(shape, tensor.dtype));
    targets.push_back({parts.back().data(), itemsize(tensor.dtype)});
  }
  detail::fill(path, index, plan, targets);
  for (std::size_t t = 0; is_sound && t < parts.size(); ++t) {
    const SavedTensor& tensor = index.tensors[t];
    const std::string expected = part_of_whole(tensor, wanted[t].layout, whole_of(tensor, t), rank);
    const std::string_view found(reinterpret_cast<const char*>(parts[t].data()), parts[t].size());
    if (found != expected)
      return tessera::detail::concat("tensor ", t, " of shape ", tensor.shape, " is not what was saved");
  }
  return {};
}

std::string spoilt(std::string bytes, Random& random) {
  for (std::size_t times = 1 + random() % 2; times > 0 && !bytes.empty(); --times) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 6) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[random() % std::min<std::size_t>(bytes.size(), 64)] = static_cast<char>(random()); break;
      case 2: bytes.erase(at, 1 + random() % 12); break;
      case 3: bytes.resize(at); break;
      case 4: bytes.append(1 + random() % 9, static_cast<char>(random())); break;
      default: bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    }
  }
  return bytes;
}

// Replaces a random value of the index by a number, text, list or null.
void change_value(Json& json, Random& random) {
  if (json.is_structured() && !json.empty() && random() % 8 != 0) {
    auto it = json.begin();
    std::advance(it, below(random, static_cast<std::int64_t>(json.size())));
    if (random() % 12 == 0) {
      json.erase(it);
      return;
    }
    return change_value(*it, random);
  }
  const Json values[] = {0,
                         -1,
                         1,
                         3,
                         std::int64_t{1} << 61,
                         std::uint64_t{1} << 63,
                         1.5,
                         "",
                         "f64",
                         "fsdp=3 {Shard(1)}",
                         "fsdp=4 {Shard(0, sizes=0/1/2/3)}",
                         Json::array(),
                         Json::array({7, 9}),
                         Json::object(),
                         nullptr,
                         true};
  if (json.is_number_integer() && random() % 2 == 0) {
    // In unsigned arithmetic, which wraps around.
    const auto number = static_cast<std::uint64_t>(json.get<std::int64_t>());
    json = static_cast<std::int64_t>(number + static_cast<std::uint64_t>(below(random, 5)) - 2);
  } else {
    json = values[random() % std::size(values)];
  }
}

// Returns the index with a change and matching checksums.
std::string changed_index(const std::string& sound, Random& random) {
  Json root = Json::parse(sound);
  for (std::size_t times = 1 + random() % 2; times > 0; --times) change_value(root["checkpoint"], random);
  root["xxh3"] = detail::hash_of(root["checkpoint"].dump());
  return root.dump();
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Corrupts one file. Returns the failure; empty if none.
std::string try_spoilt(const std::filesystem::path& checkpoint, int world_size, const std::vector<Layout>& layouts,
                       Random& random) {
  const bool is_index = random() % 2 == 0;
  const std::filesystem::path file =
      checkpoint /
      (is_index ? std::string(detail::kIndexName) : detail::file_name(static_cast<int>(below(random, world_size))));
  const std::string sound = testing::bytes_of(file);
  const bool is_made_fitting = is_index && random() % 2 == 0;
  const std::string bytes = is_made_fitting ? changed_index(sound, random) : spoilt(sound, random);
  write_bytes(file, bytes);
  // Changes without a meaning in JSON are not damage.
  const bool is_same = bytes == sound || (is_index && Json::parse(bytes, nullptr, false) == Json::parse(sound));
  std::string problem;
  const CheckpointVerdict verdict = verify_checkpoint(checkpoint);
  if (!is_made_fitting && !is_same && verdict.faults.empty())
    problem = file.filename().string() + ": damage that is not found";
  try {
    if (problem.empty()) problem = try_load(checkpoint, layouts, Rank(static_cast<int>(random() % 4)), false);
    if (problem.empty()) diff_checkpoints(open_checkpoint(checkpoint), open_checkpoint(checkpoint), {});
  } catch (const Error&) {
  }
  write_bytes(file, sound);
  return problem;
}

// The checkpoint for other ranks holds the same values; more ranks than elements are rejected.
std::string try_resharded(const std::filesystem::path& checkpoint, const CheckpointIndex& index, const Mesh& to,
                          const std::filesystem::path& directory) {
  std::int64_t elements = 0;
  for (const SavedTensor& tensor : index.tensors) elements += tensor.shape.numel();
  try {
    const CheckpointInfo made = reshard_checkpoint(open_checkpoint(checkpoint), to, directory);
    if (!verify_checkpoint(made.path).faults.empty()) return "what was resharded is called damaged";
    if (!diff_checkpoints(open_checkpoint(checkpoint), made, {})) return "what was resharded is something else";
    return to.size() > std::max<std::int64_t>(elements, 1) ? "ranks without an element are not refused" : "";
  } catch (const InvalidArgument&) {
    if (to.size() > elements) return {};
    throw;
  }
}

std::string run_one(std::uint64_t seed) {
  Random random(seed);
  const testing::CheckpointDirectory directory;
  const Mesh from = random_mesh(random);
  const int world_size = static_cast<int>(from.size()) + static_cast<int>(random() % 2);
  const CheckpointIndex index = write_checkpoint(directory.path(), random_tensors(from, random), world_size);
  const std::filesystem::path checkpoint = directory.path() / detail::step_name(5);
  if (!verify_checkpoint(checkpoint).faults.empty()) return "what was just written is called damaged";
  const Mesh to = random_mesh(random);
  std::vector<Layout> layouts;
  for (const SavedTensor& tensor : index.tensors) {
    layouts.push_back(random() % 5 != 0 ? random_layout(to, tensor.shape, random) : Layout());
  }
  for (std::int64_t rank = 0; rank < to.size(); ++rank) {
    std::string problem = try_load(checkpoint, layouts, Rank(static_cast<int>(rank)), true);
    if (!problem.empty()) return problem;
  }
  std::string in_resharded = try_resharded(checkpoint, index, to, directory.path() / "resharded");
  if (!in_resharded.empty()) return in_resharded;
  for (int i = 0; i < 12; ++i) {
    std::string problem = try_spoilt(checkpoint, world_size, layouts, random);
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace
}  // namespace tessera::train

int main(int argc, char** argv) { return tessera::fuzz::run(argc, argv, "checkpoints", tessera::train::run_one); }
