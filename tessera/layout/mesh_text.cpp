// Text form of meshes:
//
//   mesh    [first +] [axis {, axis}]
//   axis    name = extent [@ link] [{ key=value {, key=value} }]
//   extent  size, or part {* part} with part = size : stride
//
// Either all axes have strides or none; an axis of size 1 needs none.
#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/nearest.h"
#include "tessera/layout/detail/mesh_text.h"

namespace tessera::layout {
namespace {

constexpr std::string_view kLinks[] = {"memory", "nvlink", "pcie", "network"};
constexpr std::size_t kMaxNameLetters = 64;

bool is_key_letter(char letter) { return detail::is_name_letter(letter, false) || letter == '.' || letter == '-'; }
bool is_value_letter(char letter) {
  return letter > ' ' && letter <= '~' && letter != ',' && letter != '{' && letter != '}';
}

}  // namespace

std::string_view to_string(Link link) {
  const auto at = static_cast<std::size_t>(link);
  return at < std::size(kLinks) ? kLinks[at] : "no link";
}

Link parse_link(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kLinks); ++i) {
    if (kLinks[i] == text) return static_cast<Link>(i);
  }
  TESSERA_THROW(InvalidArgument, "unknown link '", detail::shown(text), "'", did_you_mean(text.substr(0, 32), kLinks),
                "; must be one of ", kLinks);
}

namespace detail {
namespace {

bool is_row_major(std::span<const Axis> axes) {
  std::int64_t stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (axes[i].size == 1) continue;
    if (axes[i].parts.size() != 1 || axes[i].parts[0].stride != stride) return false;
    stride *= axes[i].size;
  }
  return true;
}

void read_options(TextReader& reader, Axis& axis) {
  do {
    reader.skip_blanks();
    const std::string key(reader.take_while(is_key_letter));
    if (key.empty() || !reader.take('=')) reader.fail("expected an option of axis '", axis.name, "' as key=value");
    axis.options.emplace_back(key, reader.take_while(is_value_letter));
    reader.skip_blanks();
  } while (reader.take(','));
  reader.expect('}');
}

Axis read_axis(TextReader& reader) {
  Axis axis;
  const std::size_t at = reader.place();
  axis.name = reader.take_name();
  if (axis.name.empty()) reader.fail("expected the name of an axis, as in dp=2,tp=4");
  if (axis.name.size() > kMaxNameLetters) reader.fail_at(at, "the name of an axis must have at most 64 letters");
  reader.expect('=');
  do {
    const std::size_t part_at = reader.place();
    const std::int64_t size = reader.number("size of an axis");
    if (size < 1) reader.fail_at(part_at, "axis '", axis.name, "' must have a size of at least 1");
    if (__builtin_mul_overflow(axis.size, size, &axis.size)) {
      reader.fail_at(part_at, "the size of axis '", axis.name, "' does not fit 63 bits");
    }
    if (reader.take(':')) {
      axis.parts.push_back({size, reader.number("stride of an axis")});
    } else if (!axis.parts.empty() || reader.peek() == '*') {
      reader.fail("each sub-axis of axis '", axis.name, "' requires a stride, as in 2:16*4:1");
    }
  } while (reader.take('*'));
  if (reader.take('@')) {
    const std::size_t link_at = reader.place();
    const std::string_view link = reader.take_name();
    const auto found = std::find(std::begin(kLinks), std::end(kLinks), link);
    if (found == std::end(kLinks)) {
      reader.fail_at(link_at, "axis '", axis.name, "': unknown link", did_you_mean(link.substr(0, 32), kLinks),
                     "; must be one of ", kLinks);
    }
    axis.link = static_cast<Link>(found - std::begin(kLinks));
  }
  if (reader.take('{')) read_options(reader, axis);
  return axis;
}

}  // namespace

void make_row_major(std::vector<Axis>& axes) {
  std::int64_t stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    axes[i].parts = {RankStep{axes[i].size, stride}};
    stride = checked_mul(stride, axes[i].size, "ranks of a mesh");
  }
}

void check_axis_text(const Axis& axis) {
  bool is_name = !axis.name.empty() && axis.name.size() <= kMaxNameLetters;
  for (std::size_t i = 0; i < axis.name.size() && is_name; ++i) is_name = is_name_letter(axis.name[i], i == 0);
  TESSERA_CHECK(is_name,
                "mesh: name of an axis must be a letter or '_', then letters, digits and '_', at most 64, got '",
                shown(axis.name), "'");
  for (const auto& [key, value] : axis.options) {
    TESSERA_CHECK(!key.empty() && std::all_of(key.begin(), key.end(), is_key_letter), "mesh: axis '", axis.name,
                  "': name of an option must consist of letters, digits, '_', '.' and '-', got '", shown(key), "'");
    TESSERA_CHECK(std::all_of(value.begin(), value.end(), is_value_letter), "mesh: axis '", axis.name, "', option '",
                  key, "': value must not contain blanks, commas or braces, got '", shown(value), "'");
  }
}

std::string mesh_text(std::span<const Axis> axes, std::int64_t first) {
  std::string text;
  if (first != 0 || axes.empty()) text = tessera::detail::concat(first, '+');
  const bool has_strides = !is_row_major(axes);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    text += tessera::detail::concat(i > 0 ? "," : "", axis.name, '=');
    if (has_strides && axis.size > 1) {
      for (std::size_t k = 0; k < axis.parts.size(); ++k) {
        text += tessera::detail::concat(k > 0 ? "*" : "", axis.parts[k].size, ':', axis.parts[k].stride);
      }
    } else {
      text += std::to_string(axis.size);
    }
    if (axis.link != Link::kNvlink) text += tessera::detail::concat('@', axis.link);
    for (std::size_t k = 0; k < axis.options.size(); ++k) {
      text += tessera::detail::concat(k == 0 ? '{' : ',', axis.options[k].first, '=', axis.options[k].second);
    }
    if (!axis.options.empty()) text += '}';
  }
  return text;
}

MeshText read_mesh(TextReader& reader) {
  MeshText mesh;
  reader.skip_blanks();
  if (reader.has_digit()) {
    mesh.first = reader.number("first rank");
    reader.expect('+');
    reader.skip_blanks();
    if (!is_name_letter(reader.peek(), true)) return mesh;  // no axes: a mesh of one rank
  }
  const std::size_t at = reader.place();
  do {
    reader.skip_blanks();
    if (mesh.axes.size() == static_cast<std::size_t>(Mesh::kMaxAxes)) {
      reader.fail("a mesh must have at most ", Mesh::kMaxAxes, " axes");
    }
    mesh.axes.push_back(read_axis(reader));
    reader.skip_blanks();
  } while (reader.take(','));

  bool has_strides = false;
  for (const Axis& axis : mesh.axes) has_strides = has_strides || !axis.parts.empty();
  for (const Axis& axis : mesh.axes) {
    if (has_strides && axis.parts.empty() && axis.size > 1) {
      reader.fail_at(at, "axis '", axis.name,
                     "' has no stride, but other axes have; specify strides for all axes or for none");
    }
  }
  return mesh;
}

}  // namespace detail
}  // namespace tessera::layout
