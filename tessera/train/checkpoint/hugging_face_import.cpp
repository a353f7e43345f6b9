#include <algorithm>
#include <ctime>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/nn/language_model.h"
#include "tessera/ops/parallel.h"
#include "tessera/train/checkpoint/detail/elements.h"
#include "tessera/train/checkpoint/detail/hugging_face_source.h"
#include "tessera/train/checkpoint/detail/model_files.h"
#include "tessera/train/checkpoint/detail/new_checkpoint.h"
#include "tessera/train/checkpoint/hugging_face.h"
#include "tessera/train/detail/resume.h"

namespace tessera::train {
namespace {

using detail::HuggingFaceSource;
using detail::ShareOfTensor;

// A parameter of the checkpoint and its elements in a mapped file.
struct Parameter {
  detail::SavedTensor saved;
  Tensor from;  // the tensor of the file; keeps it mapped
  ShareOfTensor share;
};

std::vector<Parameter> parameters_of(const HuggingFaceSource& source, std::optional<DType> dtype) {
  const std::vector<nn::HuggingFaceTensor> tensors = source.format().tensors(source.config());
  const std::vector<HuggingFaceSource::Place> places = source.places_of(tensors);
  std::vector<Parameter> out;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Tensor mapped = places[t].file->map(places[t].entry->name);
    const auto count = static_cast<std::int64_t>(tensors[t].paths.size());
    for (std::int64_t i = 0; i < count; ++i) {
      out.push_back(
          {.saved = {.name = "parameters/" + tensors[t].paths[static_cast<std::size_t>(i)],
                     .dtype = dtype.value_or(mapped.dtype()),
                     .shape = tensors[t].parameter_shape()},
           .from = mapped,
           .share = {
               .shape = tensors[t].shape, .index = i, .count = count, .is_transposed = tensors[t].is_transposed}});
    }
  }
  return out;
}

// The configuration of a run that would train this model, with the tokenizer that the import copies to `place`.
Config run_config(const HuggingFaceSource& source, const std::filesystem::path& from,
                  const std::filesystem::path& place) {
  Config config;
  config.model = source.config();
  config.model.preset = nn::model_family(config.model.family).presets.front().name;
  if (std::filesystem::exists(from / "tokenizer.json"))
    config.data.tokenizer = (std::filesystem::absolute(place) / "tokenizer.json").lexically_normal().string();
  return config;
}

}  // namespace

CheckpointInfo import_hugging_face(const std::filesystem::path& from, const std::filesystem::path& directory,
                                   std::optional<DType> dtype) {
  TESSERA_CHECK(!dtype || detail::is_convertible(*dtype), "import: dtype must be f64, f32, f16 or bf16, got ", *dtype);
  const HuggingFaceSource source(from);
  std::vector<Parameter> parameters;
  try {
    parameters = parameters_of(source, dtype);
  } catch (const InvalidArgument& error) {
    TESSERA_THROW(InvalidArgument, from.string(), ": ", error.message());
  }
  for (const Parameter& each : parameters) each.from.device().synchronize();  // copies of unaligned elements
  detail::CheckpointIndex index;
  index.written_at_seconds = std::time(nullptr);
  for (const Parameter& each : parameters) index.tensors.push_back(each.saved);
  detail::check_tensors(index.tensors, index.world_size);
  const Config config = run_config(source, from, directory / detail::step_name(index.step));
  index.texts = {{"configuration", detail::configuration_text(config)}};
  std::vector<std::size_t> order(parameters.size());  // the largest first, so that threads end together
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return parameters[i].saved.shape.numel(); });
  return detail::write_new_checkpoint("import", directory, std::move(index), [&](detail::NewCheckpoint& made) {
    detail::copy_model_files(from, made.directory());
    ops::detail::parallel_for(static_cast<std::int64_t>(order.size()), 1, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) {
        const std::size_t t = order[static_cast<std::size_t>(i)];
        const Parameter& each = parameters[t];
        detail::ShareReader reader(each.share, each.from.data(), each.from.dtype(), each.saved.dtype);
        made.write_chunks(t, [&](std::uint64_t at, std::size_t nbytes) { return reader.read(at, nbytes); });
      }
    });
  });
}

}  // namespace tessera::train
