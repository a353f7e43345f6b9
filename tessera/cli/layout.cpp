// `tessera layout`: layouts of tensors on a mesh. This file lists its subcommands in declare().
#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/cli/layout_verbs.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

Body declare(Command& command) {
  const Body run_chosen = command.add_commands({
      {"show", "Show the shard of each rank, and draw which ranks own which elements", declare_layout_show},
      {"plan", "Find the cheapest redistribution plan between two layouts, and its cost", declare_layout_plan},
      {"explain", "Show the output layouts of an operator, or the fixes for incompatible inputs",
       declare_layout_explain},
  });
  command.footer =
      "A mesh is a list of axes in row-major order: dp=2,tp=4. An axis may name its link: dp=2@network.\n"
      "A layout is one placement per axis: \"S0,R\" is {Shard(0), Replicate()}; \"P(max)\" is Partial(max).\n"
      "  S(0,order=1)      the axis is the second to shard dimension 0, whatever the order of the axes\n"
      "  S(0,blocks=4)     each of 4 blocks of dimension 0 is sharded\n"
      "  S(0,sizes=3/5)    explicit shard sizes\n"
      "  2:S0*4:R          sub-axes of the axis, the major one first\n"
      "\"{tp: Shard(0)}\" names the axes; axes without a name replicate.\n"
      "  tessera layout show --mesh dp=2,tp=4 --shape 8x6 --layout \"S0,S1\"";
  return [run_chosen]() -> int {
    const auto fail = [](const Error& error, int code) {
      const bool names_command = error.message().starts_with("layout");
      std::fprintf(stderr, "tessera: %s%s\n", names_command ? "" : "layout: ", error.message().c_str());
      return code;
    };
    try {
      return run_chosen();
    } catch (const InvalidArgument& error) {  // all input comes from the command line
      return fail(error, kUsage);
    } catch (const IoError& error) {
      return fail(error, kFailed);
    }
  };
}

const VerbRegistration kLayout({"layout", "Show layouts, redistribution plans and operator rules on a mesh", declare});

}  // namespace

Shape read_shape(const std::string& text) {
  if (text == "scalar") return {};
  std::vector<std::int64_t> sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    TESSERA_CHECK(error == std::errc() && size >= 0 && *at != '-', "shape '", text, "': must have a size at '",
                  std::string(at, end), "'; write for example 4096x512");
    sizes.push_back(size);
    at = next;
    if (at == end) break;
    TESSERA_CHECK((*at == 'x' || *at == ',') && at + 1 != end, "shape '", text, "': must have 'x' and a size at '",
                  std::string(at, end), "'; write for example 4096x512");
    ++at;
  }
  TESSERA_CHECK(sizes.size() <= 64, "shape '", text, "': must have at most 64 dimensions, got ", sizes.size());
  return Shape(std::span<const std::int64_t>(sizes));
}

layout::Layout read_layout(const std::string& mesh, const std::string& text) {
  return mesh.empty() ? layout::Layout::parse(text) : layout::Layout::parse(layout::Mesh::parse(mesh), text);
}

std::string hash_text(const layout::LayoutHash& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

std::string shape_text(const Shape& shape) {
  return shape.size() == 0 ? "scalar" : fmt::format("{}", fmt::join(shape.begin(), shape.end(), "x"));
}

}  // namespace tessera::cli
