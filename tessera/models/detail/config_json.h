// Reads the fields of a config.json of `transformers`, and collects all problems instead of stopping at the first. An
// absent field and null have the same meaning: the default.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/nn/model_config.h"

namespace tessera::models::detail {

/// Maximum number of layers: a file of a few bytes must not describe more tensors than memory holds.
inline constexpr std::int64_t kMaxLayers = 4096;

/// Reader of one config.json. Not thread-safe.
class ConfigJson {
 public:
  /// Parses the text. Throws InvalidArgument if it is not a JSON object, or nested too deeply.
  explicit ConfigJson(const std::string& text);

  /// Returns true if the field has a value.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Returns an integer from `least` to `most`. Without `by_default`, the field is required.
  std::int64_t size(std::string_view name, std::optional<std::int64_t> by_default = {}, std::int64_t least = 1,
                    std::int64_t most = std::int64_t{1} << 31);
  /// Returns a positive number.
  double number(std::string_view name, double by_default);
  /// Returns true or false.
  bool flag(std::string_view name, bool by_default);
  /// Returns a text.
  std::string text(std::string_view name, std::string_view by_default);
  /// Returns a list of texts; empty if the field is absent.
  std::vector<std::string> texts(std::string_view name);
  /// Adds a problem if a field has another value than false, 0 or null.
  void require_absent(std::initializer_list<std::string_view> names);
  /// Adds a problem if the file names another architecture than one of these.
  void require_architecture(const std::vector<std::string>& names);
  /// Reads base and scaling of the rotary embedding, as versions 4 (rope_theta, rope_scaling) and 5 (rope_parameters)
  /// of transformers write them.
  void read_rope(nn::ModelConfig& config);

  /// Adds a problem.
  void fault(const std::string& problem) { problems_ += "\n  " + problem; }
  /// Throws InvalidArgument with all problems, if there are any.
  void finish() const;

 private:
  ConfigJson(const nlohmann::ordered_json& object, std::string prefix) : root_(object), prefix_(std::move(prefix)) {}
  [[nodiscard]] const nlohmann::ordered_json* find(std::string_view name) const;
  void fault_of(std::string_view name, std::string_view requirement, const nlohmann::ordered_json& value);
  void read_scaling(ConfigJson& scaling, nn::ModelConfig& config);

  nlohmann::ordered_json root_;
  std::string prefix_;  // of names in messages: "rope_scaling."
  std::string problems_;
};

/// Returns an earlier config.json as an object; an empty one if `before` is empty. Fields that describe the elements of
/// files, or that only one version of transformers knows, are left out.
nlohmann::ordered_json fields_before(const std::string& before);
/// Sets rope_theta and rope_scaling, which all versions of transformers read.
void write_rope(const nn::ModelConfig& config, nlohmann::ordered_json& to);

}  // namespace tessera::models::detail
