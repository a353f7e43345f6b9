// JSON of the cost model. Parsing is strict: an unknown name in a calibration file is an error, because its measurement
// would otherwise be ignored silently.
#include "tessera/layout/cost_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <exception>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/nearest.h"
#include "tessera/base/regular_file.h"

namespace tessera::layout {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMaxNbytes = std::uint64_t{1} << 24;  // of a file
constexpr std::size_t kMaxDepth = 64;                         // of its JSON
constexpr Link kLinks[] = {Link::kMemory, Link::kNvlink, Link::kPcie, Link::kNetwork};

// Name of a key in errors: the file, then the path of keys.
struct Where {
  const std::string& origin;
  std::string path = {};

  [[nodiscard]] Where at(const std::string& key) const { return {origin, path.empty() ? key : path + "." + key}; }
  [[nodiscard]] std::string text() const { return path.empty() ? origin : origin + ": " + path; }
};

[[noreturn]] void refuse_key(const Where& where, const std::string& key, const std::vector<std::string>& known) {
  const auto meant = nearest(key, known);
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  TESSERA_THROW(InvalidArgument, where.at(key).text(), ": unknown name",
                meant ? "; did you mean \"" + *meant + "\"?" : "; valid names: " + names);
}

const ordered_json& object(const ordered_json& json, const Where& where) {
  TESSERA_CHECK(json.is_object(), where.text(), ": must be an object of names and numbers, got ", json.dump());
  return json;
}

double number(const ordered_json& json, const Where& where) {
  TESSERA_CHECK(json.is_number(), where.text(), ": must be a number, got ", json.dump());
  return json.get<double>();
}

LinkCost read_link(const ordered_json& json, LinkCost cost, const Where& where) {
  for (const auto& [key, value] : object(json, where).items()) {
    if (key == "latency_us")
      cost.latency_us = number(value, where.at(key));
    else if (key == "gigabytes_per_s")
      cost.gigabytes_per_s = number(value, where.at(key));
    else
      refuse_key(where, key, {"latency_us", "gigabytes_per_s"});
  }
  return cost;
}

void read_links(const ordered_json& json, CostModel& model, const Where& where) {
  std::vector<std::string> names;
  for (const Link link : kLinks) names.emplace_back(to_string(link));
  for (const auto& [key, value] : object(json, where).items()) {
    bool is_known = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (key != names[i]) continue;
      model.links[i] = read_link(value, model.links[i], where.at(key));
      is_known = true;
    }
    if (!is_known) refuse_key(where, key, names);
  }
}

// An axis has no defaults: it must set both of its values.
void read_axes(const ordered_json& json, CostModel& model, const Where& where) {
  for (const auto& [key, value] : object(json, where).items()) {
    const Where axis = where.at(key);
    for (const char* needed : {"latency_us", "gigabytes_per_s"})
      TESSERA_CHECK(object(value, axis).contains(needed), axis.text(), ": requires ", needed);
    model.axes[key] = read_link(value, {}, axis);
  }
}

ordered_json to_json(const LinkCost& cost) {
  return {{"latency_us", cost.latency_us}, {"gigabytes_per_s", cost.gigabytes_per_s}};
}

void check_time(double us, const std::string& what) {
  TESSERA_CHECK(std::isfinite(us) && us >= 0, "cost model: ", what, " must be at least 0 us, got ", us);
}

void check_speed(double gigabytes_per_s, const std::string& what) {
  TESSERA_CHECK(std::isfinite(gigabytes_per_s) && gigabytes_per_s > 0, "cost model: ", what,
                " must be above 0 GB/s, got ", gigabytes_per_s);
}

void check_link(const LinkCost& cost, const std::string& what) {
  check_time(cost.latency_us, what + ".latency_us");
  check_speed(cost.gigabytes_per_s, what + ".gigabytes_per_s");
}

}  // namespace

const LinkCost& CostModel::of(const Axis& axis) const {
  if (!axes.empty()) {
    if (const auto found = axes.find(axis.name); found != axes.end()) return found->second;
  }
  return links[static_cast<std::size_t>(axis.link)];
}

double CostModel::copy_us(double nbytes) const { return copy_launch_us + nbytes / (copy_gigabytes_per_s * 1e3); }

std::string CostModel::text() const {
  std::string text = fmt::format(
      "steps: {} us to start, then at the speed of the slowest axis; bytes of the rank with the largest "
      "shard\n"
      "copies: {} us to start, {} GB/s on the device\n",
      launch_us, copy_launch_us, copy_gigabytes_per_s);
  for (const Link link : kLinks) {
    const LinkCost& cost = links[static_cast<std::size_t>(link)];
    text += fmt::format("{}: {} us per hop, {} GB/s received per rank\n", to_string(link), cost.latency_us,
                        cost.gigabytes_per_s);
  }
  for (const auto& [name, cost] : axes)
    text += fmt::format("axis {}: {} us per hop, {} GB/s (measured for this axis)\n", name, cost.latency_us,
                        cost.gigabytes_per_s);
  return text;
}

std::string CostModel::json() const {
  ordered_json by_link = ordered_json::object();
  for (const Link link : kLinks) by_link[std::string(to_string(link))] = to_json(links[static_cast<std::size_t>(link)]);
  ordered_json by_axis = ordered_json::object();
  for (const auto& [name, cost] : axes) by_axis[name] = to_json(cost);
  const ordered_json whole = {{"launch_us", launch_us},
                              {"copy_gigabytes_per_s", copy_gigabytes_per_s},
                              {"copy_launch_us", copy_launch_us},
                              {"links", by_link},
                              {"axes", by_axis}};
  return whole.dump(2) + "\n";
}

CostModel CostModel::load(const std::string& path) {
  try {
    return parse(read_regular_file(path, kMaxNbytes), path);
  } catch (const IoError& error) {
    TESSERA_THROW(IoError, "cost model: cannot read \"", path, "\": ", error.message());
  }
}

CostModel CostModel::parse(std::string_view json, const std::string& origin) {
  const Where where{origin};
  const std::size_t depth = tessera::detail::json_depth(json);
  TESSERA_CHECK(depth <= kMaxDepth, origin, ": must be nested at most ", kMaxDepth, " levels deep, got ", depth);
  ordered_json whole;
  try {
    whole = ordered_json::parse(json);
  } catch (const std::exception& error) {
    TESSERA_THROW(InvalidArgument, origin, ": not JSON: ", error.what());
  }
  CostModel model;
  for (const auto& [key, value] : object(whole, where).items()) {
    if (key == "launch_us")
      model.launch_us = number(value, where.at(key));
    else if (key == "copy_gigabytes_per_s")
      model.copy_gigabytes_per_s = number(value, where.at(key));
    else if (key == "copy_launch_us")
      model.copy_launch_us = number(value, where.at(key));
    else if (key == "links")
      read_links(value, model, where.at(key));
    else if (key == "axes")
      read_axes(value, model, where.at(key));
    else
      refuse_key(where, key, {"launch_us", "copy_gigabytes_per_s", "copy_launch_us", "links", "axes"});
  }
  try {
    model.check();
  } catch (const Error& error) {
    TESSERA_THROW(InvalidArgument, origin, ": ", error.message());
  }
  return model;
}

void CostModel::check() const {
  check_time(launch_us, "launch_us");
  check_time(copy_launch_us, "copy_launch_us");
  check_speed(copy_gigabytes_per_s, "copy_gigabytes_per_s");
  for (const Link link : kLinks)
    check_link(links[static_cast<std::size_t>(link)], "links." + std::string(to_string(link)));
  for (const auto& [name, cost] : axes) check_link(cost, "axes." + name);
}

}  // namespace tessera::layout
