#include "tessera/layout/testing/random_calls.h"

#include <algorithm>
#include <iterator>

#include "tessera/base/error.h"
#include "tessera/layout/arithmetic.h"

namespace tessera::layout::testing {
namespace {

constexpr const char* kRules[] = {
    "mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi",
    "bmm: [b,i,k],[b,k,j]->[b,i,j]; k=sum; multi, multi",
    "add: [i,j],[i,j]->[i,j]; joint+up, joint+up",
    "sub: [i,j],[i,j]->[i,j]; joint+up, joint+down",
    "bias: [i,j],[j]->[i,j]; joint, joint",
    "mul: [i,j],[i,1]->[i,j]; multi, multi",
    "relu: [i,j]->[i,j]; none+up",
    "neg: [i]->[i]; joint+down",
    "square: [i,j]->[i,j]",
    "maximum: [i],[i]->[i]; none+up, none+up",
    "sum: [i,k]->[i]; k=sum; joint",
    "dot: [k],[k]->[]; k=sum; multi, multi",
    "amax: [i,k]->[i]; k=max; none+up",
    "minneg: [i,k]->[i]; k=min; none+down",
    "sumup: [i,k]->[i]; k=sum; none+up",
    "prod: [i,k]->[i]; k=prod",
    "scan: [i,s]->[i,s]; s=replicate; joint",
    "flip: [i,p]->[p,i]; p=permuted; joint",
    "quantize: [i,b]->[i,b]; b=blocked(2); joint",
    "both: [i,k]->[k,i],[i]; k=sum; joint",
    "three: [i,k],[k,j],[i,j]->[i,j]; k=sum; multi, multi, multi",
    "mixed: [i,j],[i,j],[j]->[i,j]; joint, joint, multi",
    "gate: [i],[i]->[i]; none, multi",
    "fold: [(a b)],[a,b]->[b,a]; joint, joint",
    "unfold: [(a b),c],[c]->[a,(b c)]; multi, multi",
};
constexpr std::size_t kCompound = 2;  // the last two: a plain layout of one input is not plain for the other
constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 4, 5, 6, 6, 8, 8, 12};

std::size_t below(Random& random, std::size_t end) { return static_cast<std::size_t>(random() % end); }
bool chance(Random& random, unsigned percent) { return random() % 100 < percent; }

// Returns the axes of a mesh, some of them as two sub-axes.
std::vector<SubAxis> draw_parts(Random& random, const Mesh& mesh, const CallOptions& options) {
  std::vector<SubAxis> parts;
  for (std::int32_t axis = 0; axis < mesh.ndim(); ++axis) {
    const std::int64_t size = mesh.axis(axis).size;
    if (size == 4 && !options.plain && chance(random, 30)) {
      parts.push_back({axis, 1, 2});
      parts.push_back({axis, 2, 2});
    } else if (size > 1) {
      parts.push_back({axis, 1, size});
    }
  }
  std::shuffle(parts.begin(), parts.end(), random);
  return parts;
}

bool fits(const Mesh& mesh, const LayoutParts& parts, const Shape& shape) {
  try {
    check_fits(Layout::create(mesh, parts), shape);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

Reduction draw_kind(Random& random) {
  constexpr Reduction kKinds[] = {Reduction::kSum, Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax};
  return kKinds[below(random, std::size(kKinds))];
}

// Returns sizes of `parts` chunks that add up to `size`.
std::shared_ptr<const std::vector<std::int64_t>> draw_sizes(Random& random, std::int64_t size, std::int64_t parts) {
  std::vector<std::int64_t> ends = {0, size};
  for (std::int64_t p = 1; p < parts; ++p)
    ends.push_back(static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(size) + 1)));
  std::sort(ends.begin(), ends.end());
  std::vector<std::int64_t> sizes;
  for (std::size_t p = 1; p < ends.size(); ++p) sizes.push_back(ends[p] - ends[p - 1]);
  return std::make_shared<const std::vector<std::int64_t>>(std::move(sizes));
}

Sharding draw_sharding(Random& random, const SubAxis& by, const CallOptions& options) {
  constexpr std::int64_t kBlocks[] = {2, 2, 3, 4};
  const bool has_blocks = !options.plain && chance(random, 25);
  return {by, has_blocks ? kBlocks[below(random, std::size(kBlocks))] : 1};
}

// Use of each sub-axis in the complete call, by factor: the same splits in every operand that has the factor.
struct Intent {
  std::vector<DimShardings> shardings;                          // by factor
  std::vector<std::pair<PartialAxis, std::uint64_t>> partials;  // with the inputs that are partial
};

Intent draw_intent(Random& random, const FactorRule& rule, std::span<const std::int64_t> sizes, const Mesh& mesh,
                   const CallOptions& options) {
  Intent intent;
  intent.shardings.resize(rule.factors.size());
  const Reduction kind = draw_kind(random);
  for (const SubAxis& part : draw_parts(random, mesh, options)) {
    const std::size_t dice = below(random, 10);
    if (dice < 6 && !rule.factors.empty()) {
      const std::size_t f = below(random, rule.factors.size());
      DimShardings& shardings = intent.shardings[f];
      if (shardings.shardings.empty() && !options.plain && chance(random, 10))
        shardings.sizes = draw_sizes(random, sizes[f], part.size);
      shardings.shardings.push_back(shardings.sizes ? Sharding{part, 1} : draw_sharding(random, part, options));
      const Shape alone{sizes[f]};
      if (!fits(mesh, {{shardings}, {}}, alone)) shardings.shardings[shardings.shardings.size() - 1].blocks = 1;
      if (!fits(mesh, {{shardings}, {}}, alone)) shardings = {};
    } else if (dice < 8) {
      const std::uint64_t all = (std::uint64_t{1} << rule.inputs.size()) - 1;
      intent.partials.emplace_back(PartialAxis{part, kind}, chance(random, 50) ? all : random() & all);
    }
  }
  return intent;
}

Layout follow(Random& random, const FactorRule& rule, std::span<const std::int64_t> sizes, const Intent& intent,
              std::size_t input, const Shape& shape, const Mesh& mesh, const CallOptions& options) {
  LayoutParts parts;
  for (const DimFactors& dim : rule.inputs[input]) {
    DimShardings& shardings = parts.dims.emplace_back();
    std::int64_t unsharded = 1;
    for (const std::int32_t f : dim) {
      const DimShardings& each = intent.shardings[static_cast<std::size_t>(f)];
      std::int64_t rest = sizes[static_cast<std::size_t>(f)];
      if (dim.size() == 1) shardings.sizes = each.sizes;
      for (const Sharding& sharding : each.shardings) {
        shardings.shardings.push_back({sharding.by, sharding.blocks * unsharded});
        rest /= sharding.by.size;
      }
      unsharded *= std::max<std::int64_t>(rest, 1);
    }
  }
  for (const auto& [partial, who] : intent.partials) {
    if ((who >> input & 1) != 0) parts.partials.push_back(partial);
  }
  if (!fits(mesh, parts, shape)) return random_layout(random, mesh, shape, options);
  return Layout::create(mesh, parts);
}

Shape shape_of(const OperandFactors& dims, std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> out;
  for (const DimFactors& dim : dims) {
    out.push_back(1);
    for (const std::int32_t f : dim) out.back() *= sizes[static_cast<std::size_t>(f)];
  }
  return Shape(std::span<const std::int64_t>(out));
}

Shape draw_shape(Random& random, std::int64_t numel) {
  std::vector<std::int64_t> dims;
  while (dims.size() < 3 && (numel > 1 || dims.empty())) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= numel; ++d) {
      if (numel % d == 0) divisors.push_back(d);
    }
    dims.push_back(divisors[below(random, divisors.size())]);
    numel /= dims.back();
  }
  dims.back() *= numel;
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

std::string RandomCall::text() const {
  std::string out = rule.text() + "\n  mesh " + inputs[0].layout.mesh().text();
  for (const Operand& input : inputs) {
    out += "\n  input " + to_string(input.shape) + " " + input.layout.placements_text();
  }
  for (const Shape& shape : outputs) out += "\n  output " + to_string(shape);
  return out;
}

Mesh random_mesh(Random& random, const CallOptions& options) {
  constexpr std::int64_t kAxisSizes[] = {1, 2, 2, 2, 3, 4, 4};
  constexpr Link kLinks[] = {Link::kNvlink, Link::kNvlink, Link::kPcie, Link::kNetwork};
  std::vector<AxisSpec> axes;
  const std::size_t count = 1 + below(random, static_cast<std::size_t>(options.max_axes));
  std::int64_t ranks = 1;
  for (std::size_t a = 0; a < count; ++a) {
    std::int64_t size = kAxisSizes[below(random, std::size(kAxisSizes))];
    if (ranks * size > options.max_ranks) size = 1;
    ranks *= size;
    axes.push_back(
        {.name = std::string(1, static_cast<char>('p' + a)), .size = size, .link = kLinks[below(random, 4)]});
  }
  return Mesh::create(axes);
}

Layout random_layout(Random& random, const Mesh& mesh, const Shape& shape, const CallOptions& options) {
  LayoutParts parts;
  parts.dims.resize(shape.size());
  const Reduction kind = draw_kind(random);
  for (const SubAxis& part : draw_parts(random, mesh, options)) {
    const std::size_t dice = below(random, 10);
    if (dice < 6 && shape.size() > 0) {
      DimShardings& shardings = parts.dims[below(random, shape.size())];
      shardings.shardings.push_back(draw_sharding(random, part, options));
      if (!fits(mesh, parts, shape)) shardings.shardings.back().blocks = 1;
      if (!fits(mesh, parts, shape)) shardings.shardings.pop_back();
    } else if (dice < 8) {
      parts.partials.push_back({part, kind});
    }
  }
  return Layout::create(mesh, parts);
}

RandomCall random_call(Random& random, const Mesh& mesh, const CallOptions& options) {
  RandomCall call;
  std::vector<std::int64_t> sizes;
  if (!options.plain && chance(random, 25)) {
    constexpr std::int64_t kWholes[] = {8, 12, 16, 24, 24, 36, 48, 60, 96};
    const std::int64_t numel = kWholes[below(random, std::size(kWholes))];
    const Shape from = draw_shape(random, numel);
    call.rule = view_rule(from, draw_shape(random, numel));
    for (const Factor& factor : call.rule.factors) sizes.push_back(factor.size);
  } else {
    const std::size_t rules = std::size(kRules) - (options.plain ? kCompound : 0);
    call.rule = FactorRule::parse(kRules[below(random, rules)]);
    for (std::size_t f = 0; f < call.rule.factors.size(); ++f)
      sizes.push_back(kSizes[below(random, std::size(kSizes))]);
    for (std::size_t f = 0; f < sizes.size(); ++f) {
      if (sizes.size() > 3) sizes[f] = std::min<std::int64_t>(sizes[f], 4);
    }
  }
  const Intent intent = draw_intent(random, call.rule, sizes, mesh, options);
  const bool is_loose = chance(random, 15);
  for (std::size_t i = 0; i < call.rule.inputs.size(); ++i) {
    const Shape shape = shape_of(call.rule.inputs[i], sizes);
    const bool follows = !is_loose && (i == 0 || chance(random, 90));
    call.inputs.push_back({shape, follows ? follow(random, call.rule, sizes, intent, i, shape, mesh, options)
                                          : random_layout(random, mesh, shape, options)});
  }
  for (const OperandFactors& dims : call.rule.outputs) call.outputs.push_back(shape_of(dims, sizes));
  return call;
}

}  // namespace tessera::layout::testing
