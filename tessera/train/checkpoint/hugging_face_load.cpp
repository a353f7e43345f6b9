// Weights of `transformers` straight into tensors: each rank copies its shards from the mapped files, converted.
#include <cstring>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/nn/module.h"
#include "tessera/ops/parallel.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/detail/elements.h"
#include "tessera/train/checkpoint/detail/hugging_face_source.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/model_files.h"
#include "tessera/train/checkpoint/detail/ownership.h"
#include "tessera/train/checkpoint/hugging_face.h"

namespace tessera::train {
namespace {

using detail::HuggingFaceSource;
using detail::IndexRun;

constexpr std::int64_t kPieceNbytes = std::int64_t{8} << 20;
constexpr std::int64_t kGathered = 64;  // elements of a transposed row that are read at once

// A dimension of a box of elements. Strides are in elements.
struct BoxDim {
  std::int64_t size;
  std::int64_t from;
  std::int64_t to;
};
// Elements of a mapped tensor and their places in a dense shard.
struct Box {
  const std::byte* from;
  std::byte* to;
  DType from_dtype;
  DType to_dtype;
  SmallVector<BoxDim, 4> dims;  // outermost first; not empty

  [[nodiscard]] Box at(std::int64_t from_elements, std::int64_t to_elements) const {
    Box out = *this;
    out.from += from_elements * static_cast<std::int64_t>(itemsize(from_dtype));
    out.to += to_elements * static_cast<std::int64_t>(itemsize(to_dtype));
    return out;
  }
};

template <std::size_t kItem>
void gather(std::byte* to, const std::byte* from, std::int64_t stride, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * static_cast<std::int64_t>(kItem), from + i * stride * static_cast<std::int64_t>(kItem), kItem);
}

// Copies elements `stride` apart to consecutive ones.
void copy_strided(const Box& box, std::int64_t stride, std::int64_t count) {
  std::byte packed[kGathered * 8];
  switch (itemsize(box.from_dtype)) {
    case 2: gather<2>(packed, box.from, stride, count); break;
    case 4: gather<4>(packed, box.from, stride, count); break;
    default: gather<8>(packed, box.from, stride, count); break;
  }
  detail::convert(box.to, box.to_dtype, packed, box.from_dtype, count);
}

void copy_box(const Box& box, std::size_t dim) {
  const BoxDim& inner = box.dims[box.dims.size() - 1];
  if (dim + 1 == box.dims.size() && inner.from == 1)
    return detail::convert(box.to, box.to_dtype, box.from, box.from_dtype, inner.size);
  // The last two dimensions of a transposed matrix: the elements that follow those of one row are those of the next.
  const bool is_last = dim + 1 == box.dims.size();
  if (inner.from != 1 && dim + 2 >= box.dims.size()) {
    const BoxDim rows = is_last ? BoxDim{1, 0, 0} : box.dims[dim];
    for (std::int64_t c = 0; c < inner.size; c += kGathered) {
      const std::int64_t count = std::min(kGathered, inner.size - c);
      for (std::int64_t r = 0; r < rows.size; ++r)
        copy_strided(box.at(r * rows.from + c * inner.from, r * rows.to + c), inner.from, count);
    }
    return;
  }
  for (std::int64_t i = 0; i < box.dims[dim].size; ++i)
    copy_box(box.at(i * box.dims[dim].from, i * box.dims[dim].to), dim + 1);
}

// Adds a box in pieces of at most kPieceNbytes along its outermost dimension.
void add_pieces(const Box& box, std::vector<Box>& out) {
  std::int64_t inner = static_cast<std::int64_t>(std::max(itemsize(box.from_dtype), itemsize(box.to_dtype)));
  for (std::size_t d = 1; d < box.dims.size(); ++d) inner *= box.dims[d].size;
  const std::int64_t step = std::max<std::int64_t>(1, kPieceNbytes / inner);
  for (std::int64_t at = 0; at < box.dims[0].size; at += step) {
    Box piece = box.at(at * box.dims[0].from, at * box.dims[0].to);
    piece.dims[0].size = std::min(step, box.dims[0].size - at);
    out.push_back(std::move(piece));
  }
}

// A parameter to fill.
struct Parameter {
  std::string name;
  Tensor from;  // the tensor of the file; keeps it mapped
  detail::ShareOfTensor share;
  Tensor to;  // the whole parameter, or its shards
};

// Returns the strides of a parameter in its tensor, in elements.
std::vector<std::int64_t> strides_in_file(const Parameter& parameter, const Shape& shape) {
  const std::int64_t last = parameter.share.shape.ndim() > 0 ? parameter.share.shape.dim(-1) : 1;
  if (parameter.share.is_transposed) return {1, last};
  std::vector<std::int64_t> strides(shape.size(), 1);
  std::int64_t step = last;
  for (std::size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = step;
    step *= shape[d - 1];
  }
  return strides;
}

// Appends a dimension, merged with the one around it if the strides of both sides permit.
void add_dim(Box& box, const BoxDim& dim) {
  if (dim.size == 1) return;
  if (!box.dims.empty()) {
    BoxDim& outer = box.dims[box.dims.size() - 1];
    if (outer.from == dim.from * dim.size && outer.to == dim.to * dim.size) {
      outer = {outer.size * dim.size, dim.from, dim.to};
      return;
    }
  }
  box.dims.push_back(dim);
}

// Adds the pieces of the shard that this rank holds. `data` is the memory of the shard.
void add_boxes(const Parameter& parameter, std::byte* data, std::vector<Box>& out) {
  const Shape& shape = parameter.to.shape();
  const detail::OwnedShard part = detail::part_of(parameter.to.layout(), shape, current_place().rank);
  const std::vector<std::int64_t> from_strides = strides_in_file(parameter, shape);
  const Strides to_strides = contiguous_strides(part.shape);
  std::int64_t count = 1;
  for (const std::vector<IndexRun>& runs : part.dims) count *= static_cast<std::int64_t>(runs.size());
  const std::int64_t columns =
      parameter.share.shape.ndim() > 0 ? parameter.share.shape.dim(-1) / parameter.share.count : 1;
  for (std::int64_t number = 0; number < count; ++number) {
    std::int64_t from = parameter.share.index * columns;
    std::int64_t to = 0;
    std::vector<BoxDim> dims(shape.size());
    std::int64_t rest = number;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const auto runs = static_cast<std::int64_t>(part.dims[d].size());
      const IndexRun& run = part.dims[d][static_cast<std::size_t>(rest % runs)];
      rest /= runs;
      from += run.global * from_strides[d];
      to += run.local * to_strides[d];
      dims[d] = {run.size, from_strides[d], to_strides[d]};
    }
    Box box{parameter.from.data(), data, parameter.from.dtype(), parameter.to.dtype(), {}};
    for (const BoxDim& dim : dims) add_dim(box, dim);
    if (box.dims.empty()) box.dims.push_back({1, 1, 1});
    add_pieces(box.at(from, to), out);
  }
}

void run_all(const std::vector<Box>& boxes) {
  ops::detail::parallel_for(static_cast<std::int64_t>(boxes.size()), 1, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) copy_box(boxes[static_cast<std::size_t>(i)], 0);
  });
}

// Returns the parameters of the state with their tensors. Throws before anything is written.
std::vector<Parameter> parameters_of(const HuggingFaceSource& source, const CheckpointState& into) {
  const std::vector<nn::HuggingFaceTensor> tensors = source.format().tensors(source.config());
  const std::vector<HuggingFaceSource::Place> places = source.places_of(tensors);
  std::map<std::string, std::pair<std::size_t, std::int64_t>> known;  // tensor and index in it
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::size_t i = 0; i < tensors[t].paths.size(); ++i)
      known.emplace("parameters/" + tensors[t].paths[i], std::pair(t, static_cast<std::int64_t>(i)));
  }
  detail::Problems problems;
  std::vector<Parameter> out;
  for (const auto& [name, to] : into.tensors) {
    TESSERA_CHECK(to, "'", name, "' must be a tensor");
    const auto found = known.find(name);
    if (found == known.end()) {
      problems.add("missing: " + name + " " + to_string(to.shape()));
      continue;
    }
    const auto& [t, index] = found->second;
    const nn::HuggingFaceTensor& tensor = tensors[t];
    if (tensor.parameter_shape() != to.shape())
      problems.add("shape of " + name + ": must be " + to_string(to.shape()) + ", got " +
                   to_string(tensor.parameter_shape()));
    if (!detail::is_convertible(to.dtype()))
      problems.add("dtype of " + name + ": must be f64, f32, f16 or bf16, got " + std::string(to_string(to.dtype())));
    if (to.has_layout() && !to.layout().partials().empty())
      problems.add("layout of " + name + ": must not be partial, got " + to.layout().text());
    if (to.local() && !to.local().is_contiguous()) problems.add("strides of " + name + ": must be contiguous");
    out.push_back({.name = name,
                   .from = places[t].file->map(places[t].entry->name),
                   .share = {.shape = tensor.shape,
                             .index = index,
                             .count = static_cast<std::int64_t>(tensor.paths.size()),
                             .is_transposed = tensor.is_transposed},
                   .to = to});
  }
  problems.check("the model must have the parameters of config.json:");
  return out;
}

// Copies through host memory, one parameter at a time.
void fill_on_device(const Parameter& parameter, const Tensor& part) {
  std::vector<std::byte> aside(part.nbytes());
  std::vector<Box> boxes;
  add_boxes(parameter, aside.data(), boxes);
  run_all(boxes);
  const device::Stream& stream = tensor::current_stream(part.device());
  part.storage().use_on(stream);
  stream.copy(part.data(), aside.data(), aside.size(), "load_hugging_face");
  stream.synchronize();
}

}  // namespace

bool is_hugging_face(const std::filesystem::path& directory) {
  std::error_code error;
  return std::filesystem::exists(directory / detail::kConfigName, error) &&
         !std::filesystem::exists(directory / detail::kIndexName, error);
}

nn::ModelConfig hugging_face_config(const std::filesystem::path& directory) {
  return HuggingFaceSource(directory).config();
}

void load_hugging_face(const std::filesystem::path& from, const CheckpointState& into) {
  const HuggingFaceSource source(from);
  std::vector<Parameter> parameters;
  try {
    parameters = parameters_of(source, into);
  } catch (const InvalidArgument& error) {
    TESSERA_THROW(InvalidArgument, from.string(), ": ", error.message());
  }
  for (const Parameter& each : parameters) each.from.device().synchronize();  // copies of unaligned elements
  std::vector<Box> boxes;
  for (const Parameter& each : parameters) {
    const Tensor part = each.to.local();
    if (!part || part.nbytes() == 0) continue;
    part.device().synchronize();
    part.storage().bump_version();
    if (part.device_kind() == tensor::kHostKind) add_boxes(each, part.data(), boxes);
  }
  run_all(boxes);
  for (const Parameter& each : parameters) {
    const Tensor part = each.to.local();
    if (part && part.nbytes() > 0 && part.device_kind() != tensor::kHostKind) fill_on_device(each, part);
  }
}

void load_hugging_face(const std::filesystem::path& from, const nn::Module& module) {
  CheckpointState state;
  for (const nn::NamedParameter& each : module.named_parameters())
    state.tensors.emplace_back("parameters/" + each.path, each.parameter.leaf().detach());
  load_hugging_face(from, state);
}

void load_weights(const std::filesystem::path& from, CheckpointState& into) {
  if (is_hugging_face(from)) return load_hugging_face(from, into);
  (void)load_checkpoint(open_checkpoint(from), into);
}

}  // namespace tessera::train
