#include "tessera/nn/hugging_face.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <span>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/nearest.h"

namespace tessera::nn {
namespace {

// Formats are registered while the program starts, and looked up by all ranks. They stay in place.
struct Formats {
  std::mutex mutex;
  std::list<HuggingFaceFormat> all;
};

Formats& formats() {
  static Formats only;
  return only;
}

const HuggingFaceFormat* find(const std::list<HuggingFaceFormat>& all, std::string_view model_type) {
  for (const HuggingFaceFormat& each : all) {
    if (std::ranges::find(each.model_types, model_type) != each.model_types.end()) return &each;
  }
  return nullptr;
}

}  // namespace

Shape HuggingFaceTensor::parameter_shape() const {
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  if (!dims.empty()) dims.back() /= static_cast<std::int64_t>(std::max<std::size_t>(paths.size(), 1));
  if (is_transposed) std::ranges::reverse(dims);
  return Shape(std::span<const std::int64_t>(dims));
}

bool register_hugging_face_format(HuggingFaceFormat format) {
  Formats& known = formats();
  const std::lock_guard lock(known.mutex);
  for (const std::string& each : format.model_types)
    TESSERA_CHECK(find(known.all, each) == nullptr, "register_hugging_face_format: model_type '", each, "' is taken");
  known.all.push_back(std::move(format));
  return true;
}

std::vector<std::string> hugging_face_model_types() {
  Formats& known = formats();
  const std::lock_guard lock(known.mutex);
  std::vector<std::string> names;
  for (const HuggingFaceFormat& each : known.all)
    names.insert(names.end(), each.model_types.begin(), each.model_types.end());
  std::ranges::sort(names);
  return names;
}

const HuggingFaceFormat& hugging_face_format(std::string_view model_type) {
  const std::vector<std::string> names = hugging_face_model_types();
  Formats& known = formats();
  const std::lock_guard lock(known.mutex);
  const HuggingFaceFormat* found = find(known.all, model_type);
  TESSERA_CHECK(found != nullptr, "model_type must be one of ", names, ", got '", model_type, "'",
                did_you_mean(model_type, names));
  return *found;
}

const HuggingFaceFormat& hugging_face_format_of_family(std::string_view family) {
  Formats& known = formats();
  const std::lock_guard lock(known.mutex);
  const auto found = std::ranges::find(known.all, family, &HuggingFaceFormat::family);
  TESSERA_CHECK(found != known.all.end(), "model.family must have a Hugging Face format, got '", family, "'");
  return *found;
}

}  // namespace tessera::nn
