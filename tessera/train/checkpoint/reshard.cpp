#include "tessera/train/checkpoint/reshard.h"

#include <algorithm>
#include <ctime>
#include <numeric>
#include <optional>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/train/checkpoint/detail/good_checkpoint.h"
#include "tessera/train/checkpoint/detail/model_files.h"
#include "tessera/train/checkpoint/detail/new_checkpoint.h"
#include "tessera/train/checkpoint/detail/whole_tensors.h"

namespace tessera::train {
namespace {

using detail::CheckpointIndex;
using detail::SavedTensor;
using layout::Layout;
using layout::Mesh;

// Returns the axis of the same name, if it exists.
std::optional<int> axis_of(const Mesh& mesh, const std::string& name) {
  for (int i = 0; i < mesh.ndim(); ++i) {
    if (mesh.axis(i).name == name) return i;
  }
  return {};
}

Layout layout_on(const Mesh& mesh, const Layout& old, const std::string& name) {
  layout::LayoutParts parts;
  parts.dims.resize(static_cast<std::size_t>(old.ndim()));
  for (int d = 0; d < old.ndim(); ++d) {
    for (const layout::Sharding& sharding : old.shardings(d)) {
      const layout::Axis& axis = old.mesh().axis(sharding.by.axis);
      TESSERA_CHECK_AS(NotSupported, sharding.by.size == axis.size, "reshard: tensor '", name,
                       "': only complete axes may shard, got ", old.text(), ", where a sub-axis of '", axis.name,
                       "' shards");
      const auto at = axis_of(mesh, axis.name);
      if (!at) continue;
      parts.dims[static_cast<std::size_t>(d)].shardings.push_back({{*at, 1, mesh.axis(*at).size}, sharding.blocks});
    }
  }
  return Layout::create(mesh, std::move(parts));
}

// Each rank is a file: with more ranks than elements, some files would be empty.
void check_ranks(const CheckpointIndex& index, const Mesh& mesh) {
  std::uint64_t elements = 0;
  for (const SavedTensor& tensor : index.tensors) {
    elements = checked_add(elements, static_cast<std::uint64_t>(tensor.shape.numel()), "elements of a checkpoint");
  }
  const auto ranks = static_cast<std::uint64_t>(mesh.size());
  TESSERA_CHECK(ranks <= std::max<std::uint64_t>(elements, 1) && mesh.size() <= detail::kMaxRanks, "reshard: mesh ",
                mesh.text(), " must have at most one rank per element (", elements, " elements) and at most ",
                detail::kMaxRanks, " ranks, got ", ranks);
}

}  // namespace

CheckpointInfo reshard_checkpoint(const CheckpointInfo& from, const Mesh& mesh,
                                  const std::filesystem::path& directory) {
  // The output gets new checksums, which would hide corruption.
  detail::WholeTensors tensors(detail::good_checkpoint(from.path));
  TESSERA_CHECK(mesh.ranks().first == 0 && mesh == Mesh::parse(mesh.text()), "reshard: mesh ", mesh.text(),
                " must begin at rank 0");
  CheckpointIndex index = tensors.index();
  check_ranks(index, mesh);
  index.world_size = static_cast<int>(mesh.size());
  index.written_at_seconds = std::time(nullptr);
  for (SavedTensor& tensor : index.tensors) {
    if (tensor.layout) tensor.layout = layout_on(mesh, tensor.layout, tensor.name);
  }
  detail::check_tensors(index.tensors, index.world_size);
  return detail::write_new_checkpoint("reshard", directory, std::move(index), [&](detail::NewCheckpoint& made) {
    for (std::size_t t = 0; t < tensors.index().tensors.size(); ++t) made.write(t, tensors.read(t));
    detail::copy_model_files(from.path, made.directory());
  });
}

Mesh mesh_with_ranks(const CheckpointInfo& from, int ranks) {
  TESSERA_CHECK(ranks >= 1, "reshard: ranks must be at least 1, got ", ranks);
  if (from.mesh.empty()) return Mesh::create({{.name = "fsdp", .size = ranks}});
  TESSERA_CHECK(from.mesh.find(';') == std::string::npos, "reshard: tensors must share one mesh, got ", from.mesh,
                "; use --mesh");
  const Mesh old = Mesh::parse(from.mesh);
  if (old.ndim() == 0) return Mesh::create({{.name = "fsdp", .size = ranks}});
  const int free = axis_of(old, "fsdp").value_or(0);
  std::vector<layout::AxisSpec> axes;
  for (const layout::Axis& axis : old.axes()) axes.push_back({axis.name, axis.size, axis.link, axis.options});
  std::int64_t left = ranks;
  for (int i = old.ndim(); i-- > 0;) {
    if (i == free) continue;
    std::int64_t& size = axes[static_cast<std::size_t>(i)].size;
    size = std::gcd(size, left);
    left /= size;
  }
  axes[static_cast<std::size_t>(free)].size = left;
  return Mesh::create(std::move(axes));
}

}  // namespace tessera::train
