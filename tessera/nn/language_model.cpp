#include "tessera/nn/language_model.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/cross_entropy.h"

namespace tessera::nn {
namespace {

// Families are registered while the program starts, and looked up by all ranks.
struct Families {
  std::mutex mutex;
  std::map<std::string, ModelFamily, std::less<>> by_name;
};

Families& families() {
  static Families all;
  return all;
}

}  // namespace

// Takes the parameter, not its tensor: a caller reads it only after the rows are computed, whatever the order in which
// arguments are evaluated.
Tensor token_loss(const Module& model, const Tensor& rows, const Parameter& parameter, const Tensor& targets,
                  double count) {
  TESSERA_CHECK(parameter && !parameter.slot()->has_adapter,
                "token_loss: an output head must not have an adapter, got one of ", model.kind(),
                "; leave it out of lora.modules");
  const Tensor weight = parameter;
  if (model.is_observed()) {
    const autograd::NoGrad no_grad;
    model.observe("scores", ops::linear(rows.detach(), weight.detach()));
  }
  return ops::linear_cross_entropy(rows, weight, targets, {.ignore_index = kIgnoredTarget, .count = count});
}

bool register_model_family(ModelFamily family) {
  Families& all = families();
  const std::lock_guard lock(all.mutex);
  TESSERA_CHECK(!family.name.empty() && family.create != nullptr && !family.presets.empty(),
                "register_model_family: a family must have a name, presets and a function, got '", family.name, "'");
  const std::string name = family.name;
  TESSERA_CHECK(all.by_name.emplace(name, std::move(family)).second,
                "register_model_family: names must be unique, got '", name, "' twice");
  return true;
}

std::vector<std::string> model_family_names() {
  Families& all = families();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  for (const auto& [name, family] : all.by_name) names.push_back(name);
  return names;
}

const ModelFamily& model_family(std::string_view name) {
  const std::vector<std::string> names = model_family_names();
  Families& all = families();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_name.find(name);
  if (found != all.by_name.end()) return found->second;
  std::string list;
  for (const std::string& each : names) list += (list.empty() ? "" : ", ") + each;
  const auto near = nearest(name, names);
  TESSERA_THROW(InvalidArgument, "model.family: must be one of ", list.empty() ? "no family" : list, ", got '", name,
                "'", near ? "; did you mean " + *near + "?" : std::string());
}

}  // namespace tessera::nn
