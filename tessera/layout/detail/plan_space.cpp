#include "tessera/layout/detail/plan_space.h"

#include <algorithm>
#include <numeric>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/layout/detail/chunking.h"

namespace tessera::layout::detail {
namespace {

// With more states, atoms that both layouts use in the same way are excluded.
constexpr double kManyStates = 30000;
// Relations between lists are cached for up to this many lists.
constexpr std::size_t kMaxRelated = 400;

// Returns the number of lists of all dimensions over some of `atoms` atoms: sum over
// k of (ordered choices of k) x (ways to divide them).
double state_count(int atoms, int dims) {
  double total = 0;
  double ordered = 1;  // atoms! / (atoms - k)!
  double parted = 1;   // C(k + dims - 1, k)
  for (int k = 0; k <= atoms; ++k) {
    total += ordered * parted;
    ordered *= atoms - k;
    parted = parted * (k + dims) / (k + 1);
  }
  return total;
}

std::int64_t piece(std::int64_t whole, std::int64_t size, std::int64_t blocks, const std::vector<std::int64_t>* sizes) {
  if (sizes != nullptr) return *std::max_element(sizes->begin(), sizes->end());
  return blocks == 1 ? chunk_of(whole, size) : blocks * chunk_of(whole / blocks, size);
}

// Returns true if the split is allowed anywhere: it has no blocks or
// explicit sizes, and no split with blocks precedes it.
bool is_plain(const AtomDim& dim, std::size_t sharding) {
  for (std::size_t i = 0; i <= sharding; ++i) {
    if (dim.shardings[i].blocks != 1) return false;
  }
  return sharding > 0 || dim.sizes == nullptr;
}

// Returns the maximum number of `before` equal chunks that one of `after` equal chunks of the same range intersects.
double pieces_met(double before, double after) {
  const auto x = static_cast<std::int64_t>(before);
  const auto y = static_cast<std::int64_t>(after);
  const std::int64_t divisor = std::gcd(x, y);
  const std::int64_t met = 1 + chunk_of(x / divisor - 1, y / divisor);
  return static_cast<double>(met);
}

}  // namespace

void PlanSpace::choose_atoms(const PlanProblem& problem) {
  const std::size_t count = problem.atoms.list.size();
  std::vector<std::uint8_t> in_play(count, 1);
  int left = 0;
  for (std::size_t a = 0; a < count; ++a) {
    if (problem.from.partials[a] && problem.from.partials[a] == problem.to.partials[a]) in_play[a] = 0;
    left += in_play[a];
  }
  const int wanted = left;
  frozen_shardings_.assign(problem.shape.size(), 0);
  int dims = 0;
  for (std::size_t d = 0; d < problem.shape.size(); ++d) {
    if (problem.shape[d] != 1 || !problem.from.dims[d].shardings.empty() || !problem.to.dims[d].shardings.empty())
      ++dims;
  }
  const auto is_too_many = [&] { return left > kMaxInPlay || (left > 4 && state_count(left, dims) > kManyStates); };
  for (std::size_t a = count; a-- > 0 && is_too_many();) {
    const auto atom = static_cast<std::int32_t>(a);
    if (in_play[a] == 0 || problem.from.partials[a] || problem.to.partials[a]) continue;
    if (problem.from.is_sharded_by(atom) || problem.to.is_sharded_by(atom)) continue;
    in_play[a] = 0;
    --left;
  }
  for (std::size_t d = 0; d < problem.shape.size(); ++d) {
    const std::size_t common = common_shardings(problem.from.dims[d], problem.to.dims[d]);
    for (std::size_t i = 0; i < common && is_too_many() && problem.from.dims[d].shardings[i].blocks == 1; ++i) {
      in_play[static_cast<std::size_t>(problem.from.dims[d].shardings[i].atom)] = 0;
      ++frozen_shardings_[d];
      --left;
    }
  }
  TESSERA_CHECK_AS(NotSupported, left <= kMaxInPlay, "plan: at most ", kMaxInPlay, " axes or sub-axes of mesh ",
                   problem.atoms.mesh.text(), " can change in one plan, got ", left,
                   " axes; redistribute through an intermediate layout");
  has_all_atoms_ = left == wanted;
  atoms_.clear();
  bit_of_.assign(count, -1);
  for (std::size_t a = 0; a < count; ++a) {
    if (in_play[a] == 0) continue;
    bit_of_[a] = static_cast<std::int16_t>(atoms_.size());
    atoms_.push_back(static_cast<std::int32_t>(a));
  }
}

// Excludes dimensions of one element that neither layout shards: sharding them never helps.
void PlanSpace::choose_dims(const PlanProblem& problem) {
  dim_of_.clear();
  sizes_.clear();
  frozen_even_.clear();
  for (std::size_t d = 0; d < problem.shape.size(); ++d) {
    const AtomDim& from = problem.from.dims[d];
    if (problem.shape[d] == 1 && from.shardings.empty() && problem.to.dims[d].shardings.empty()) continue;
    std::int64_t size = problem.shape[d];
    std::int64_t pieces = 1;
    for (int i = 0; i < frozen_shardings_[d]; ++i) {
      const AtomSharding& sharding = from.shardings[static_cast<std::size_t>(i)];
      size = piece(size, problem.atoms.size(sharding.atom), sharding.blocks, i == 0 ? from.sizes.get() : nullptr);
      pieces *= problem.atoms.size(sharding.atom);
    }
    dim_of_.push_back(static_cast<int>(d));
    sizes_.push_back(size);
    frozen_even_.push_back(problem.shape[d] == size * pieces ? 1 : 0);
  }
  dim_count_ = static_cast<int>(dim_of_.size());
}

void PlanSpace::read_partials(const PlanProblem& problem) {
  pending_ = finals_ = sum_finals_ = 0;
  can_mix_ = true;
  for (int bit = 0; bit < atoms(); ++bit) {
    const auto a = static_cast<std::size_t>(atom(bit));
    if (problem.from.partials[a]) pending_ |= Mask{1} << bit;
    if (!problem.to.partials[a]) continue;
    finals_ |= Mask{1} << bit;
    if (*problem.to.partials[a] == Reduction::kSum) sum_finals_ |= Mask{1} << bit;
    for (const auto& other : problem.from.partials) {
      if (other && !layout::can_mix(*other, *problem.to.partials[a])) can_mix_ = false;
    }
  }
}

// Returns the nibble of a split with blocks or explicit sizes after
// `prefix`; source and target share it for equal splits.
int PlanSpace::special_token(int dim, std::size_t place_in_dim, const AtomDim& shardings, std::uint64_t prefix) {
  const AtomSharding& sharding = shardings.shardings[place_in_dim];
  const int bit = bit_of_[static_cast<std::size_t>(sharding.atom)];
  const bool has_sizes = place_in_dim == 0 && shardings.sizes != nullptr;
  for (std::size_t t = static_cast<std::size_t>(atoms()) + 1; t < tokens_.size(); ++t) {
    const Token& known = tokens_[t];
    if (known.dim != dim || known.bit != bit || known.prefix != prefix || known.blocks != sharding.blocks) continue;
    if (are_same_sizes(known.sizes, has_sizes ? shardings.sizes : nullptr)) return static_cast<int>(t);
  }
  tokens_.push_back({.bit = bit,
                     .size = tokens_[static_cast<std::size_t>(bit) + 1].size,
                     .blocks = sharding.blocks,
                     .sizes = has_sizes ? shardings.sizes : nullptr,
                     .dim = dim,
                     .prefix = prefix});
  TESSERA_CHECK_AS(
      NotSupported, tokens_.size() <= kMaxTokens + 1,
      "plan: too many shardings with blocks or explicit sizes; redistribute through an intermediate layout");
  return static_cast<int>(tokens_.size()) - 1;
}

void PlanSpace::read_words(const AtomLayout& layout, std::vector<std::uint64_t>& words) {
  words.clear();
  for (int d = 0; d < dims(); ++d) {
    const auto whole = static_cast<std::size_t>(dim_of_[static_cast<std::size_t>(d)]);
    const AtomDim& shardings = layout.dims[whole];
    std::uint64_t word = 0;
    const auto frozen = static_cast<std::size_t>(frozen_shardings_[whole]);
    for (std::size_t i = frozen; i < shardings.shardings.size(); ++i) {
      const int bit = bit_of_[static_cast<std::size_t>(shardings.shardings[i].atom)];
      const int token = is_plain(shardings, i) ? bit + 1 : special_token(d, i, shardings, word);
      word |= static_cast<std::uint64_t>(token) << (4 * (i - frozen));
    }
    words.push_back(word);
  }
}

// Adds every list of the dimension with a special token: each such token after its own prefix, then plain splits. After
// a split with blocks, only splits of the source or the target follow, since another split could break its runs.
void PlanSpace::add_special_lists(int dim) {
  auto& numbers = special_[static_cast<std::size_t>(dim)];
  const auto extend = [&](std::size_t from) {
    const ShardingList parent = lists_[from];
    const auto index = static_cast<std::int16_t>(from);
    for (int t = 1; t < static_cast<int>(tokens_.size()); ++t) {
      const Token& next = token(t);
      if ((parent.mask >> next.bit & 1) != 0) continue;
      if (next.is_plain() ? parent.dim < 0 || parent.has_blocks : next.dim != dim || next.prefix != parent.word)
        continue;
      numbers.push_back(static_cast<std::int16_t>(lists_.size()));
      lists_.push_back(append(parent, index, t, next.bit, dim));
      if (next.blocks != 1) lists_.back().has_blocks = true;
    }
  };
  for (std::size_t i = 0; i < plain_->lists.size(); ++i) extend(i);
  for (std::size_t i = 0; i < numbers.size(); ++i) extend(static_cast<std::size_t>(numbers[i]));
}

int PlanSpace::find_list(int dim, std::uint64_t word) const {
  int found = 0;
  for (int i = 0; i < list_count(); ++i) {
    if (list(i).word == word && (list(i).dim < 0 || list(i).dim == dim)) found = i;
  }
  return found;
}

void PlanSpace::read_ends(const PlanProblem& problem) {
  tokens_.resize(1);
  for (int bit = 0; bit < atoms(); ++bit) tokens_.push_back({.bit = bit, .size = problem.atoms.size(atom(bit))});
  read_words(problem.from, from_words_);
  read_words(problem.to, to_words_);
  plain_ = &plain_lists(atoms());
  lists_ = plain_->lists;
  special_.resize(static_cast<std::size_t>(dims()));
  for (auto& numbers : special_) numbers.clear();
  if (has_special()) {
    for (int d = 0; d < dims(); ++d) add_special_lists(d);
  }
  from_lists_.clear();
  to_lists_.clear();
  for (int d = 0; d < dims(); ++d) {
    from_lists_.push_back(static_cast<std::uint16_t>(find_list(d, from_words_[static_cast<std::size_t>(d)])));
    to_lists_.push_back(static_cast<std::uint16_t>(find_list(d, to_words_[static_cast<std::size_t>(d)])));
  }
}

void PlanSpace::compute_extents() {
  const std::size_t count = lists_.size();
  extents_.resize(count * static_cast<std::size_t>(dims()));
  is_even_.resize(extents_.size());
  is_all_even_ = !has_special();
  std::vector<std::int64_t>& exact = exact_extents_;
  exact.resize(count);
  for (int d = 0; d < dims(); ++d) {
    exact[0] = sizes_[static_cast<std::size_t>(d)];
    for (std::size_t i = 0; i < count; ++i) {
      const ShardingList& shardings = lists_[i];
      const Token& last = tokens_[shardings.last];
      const std::int64_t whole = exact[static_cast<std::size_t>(shardings.parent)];
      if (i > 0) exact[i] = piece(whole, last.size, last.blocks, last.sizes.get());
      // Chunks are even if they were before and the last split divides; explicit sizes may all be equal.
      const bool was_even =
          i == 0 ? frozen_even_[static_cast<std::size_t>(d)] != 0 : is_even_[place(d, shardings.parent)] != 0;
      const bool is_even = was_even && (i == 0 || exact[i] * last.size == whole);
      extents_[place(d, static_cast<int>(i))] = static_cast<double>(exact[i]);
      is_even_[place(d, static_cast<int>(i))] = is_even ? 1 : 0;
      if (!is_even) is_all_even_ = false;
    }
  }
}

void PlanSpace::compute_groups(const PlanProblem& problem) {
  groups_.assign(std::size_t{1} << atoms_.size(), GroupCost{});
  for (Mask mask = 1; mask <= all(); ++mask) {
    const int bit = std::countr_zero(mask);
    const LinkCost& link =
        problem.model.of(problem.atoms.mesh.axis(problem.atoms.list[static_cast<std::size_t>(atom(bit))].axis));
    GroupCost cost = groups_[mask & (mask - 1)];
    cost.ranks *= static_cast<double>(token(bit + 1).size);
    cost.latency_us = std::max(cost.latency_us, link.latency_us);
    cost.us_per_byte = std::max(cost.us_per_byte, 1e-3 / link.gigabytes_per_s);
    groups_[mask] = cost;
  }
}

bool PlanSpace::has_special_tail(const ShardingList& list, int from) const {
  if (list.dim < 0) return false;
  for (int i = from; i < list.size; ++i) {
    if (!token(token_at(list.word, i)).is_plain()) return true;
  }
  return false;
}

ListRelation PlanSpace::find_relation(int a, int b) const {
  ListRelation relation;
  relation.kind = ListRelation::kSame;
  if (a == b) return relation;
  const ShardingList& x = list(a);
  const ShardingList& y = list(b);
  const int from = common_prefix(x.word, y.word);
  relation.from = static_cast<std::uint8_t>(from);
  relation.axes = static_cast<std::uint8_t>(x.tail(from) | y.tail(from));
  const double before = group(x.tail(from)).ranks;
  const double after = group(y.tail(from)).ranks;
  if (from == x.size) {
    relation.kind = ListRelation::kGrown;
  } else if (from == y.size) {
    relation.kind = ListRelation::kShrunk;
    relation.pieces = before;
  } else {
    relation.kind = ListRelation::kApart;
    const bool is_special = has_special_tail(x, from) || has_special_tail(y, from);
    relation.pieces = is_special ? before : pieces_met(before, after);
    relation.has_same_product = !is_special && before == after;
    relation.has_same_sequence = x.size == y.size;
    for (int i = from; i < x.size && relation.has_same_sequence; ++i) {
      const Token& p = token(token_at(x.word, i));
      const Token& q = token(token_at(y.word, i));
      relation.has_same_sequence = p.size == q.size && p.blocks == q.blocks && are_same_sizes(p.sizes, q.sizes);
    }
  }
  return relation;
}

double PlanSpace::numel(const std::uint16_t* lists) const {
  double product = 1;
  for (int d = 0; d < dims(); ++d) product *= extent(d, lists[d]);
  return product;
}

void PlanSpace::build(const PlanProblem& problem) {
  model_ = &problem.model;
  itemsize_ = static_cast<double>(problem.itemsize);
  choose_atoms(problem);
  choose_dims(problem);
  read_partials(problem);
  read_ends(problem);
  compute_extents();
  compute_groups(problem);
  relations_.clear();
  if (lists_.size() <= kMaxRelated) relations_.resize(lists_.size() * lists_.size());
  from_ = {from_lists_.data(), numel(from_lists_.data()), pending_ != 0 ? kPending : 0};
  to_ = {to_lists_.data(), numel(to_lists_.data()), finals_};
  const double least = std::max(from_.numel, to_.numel);
  max_numel_ = least;
  if (problem.budget_nbytes > 0) {
    max_numel_ = static_cast<double>(problem.budget_nbytes) / itemsize_;
    TESSERA_CHECK(max_numel_ >= least, "plan: budget must be at least the larger shard of the source and target, ",
                  format_bytes(static_cast<std::uint64_t>(least * itemsize_)), ", got ",
                  format_bytes(static_cast<std::uint64_t>(problem.budget_nbytes)));
  }
}

AtomLayout PlanSpace::to_layout(const PlanProblem& problem, const PlanState& state) const {
  AtomLayout layout;
  layout.dims.resize(problem.shape.size());
  layout.partials = problem.from.partials;
  for (int d = 0; d < dims(); ++d) {
    const auto whole = static_cast<std::size_t>(dim_of_[static_cast<std::size_t>(d)]);
    AtomDim& dim = layout.dims[whole];
    for (int i = 0; i < frozen_shardings_[whole]; ++i) {
      dim.shardings.push_back(problem.from.dims[whole].shardings[static_cast<std::size_t>(i)]);
      dim.sizes = problem.from.dims[whole].sizes;
    }
    const ShardingList& shardings = list(state.lists[d]);
    for (int i = 0; i < shardings.size; ++i) {
      const Token& sharding = token(token_at(shardings.word, i));
      dim.shardings.push_back({atom(sharding.bit), sharding.blocks});
      if (sharding.sizes != nullptr) dim.sizes = sharding.sizes;
    }
  }
  for (int bit = 0; bit < atoms(); ++bit) {
    auto& partial = layout.partials[static_cast<std::size_t>(atom(bit))];
    if ((state.status & kPending) == 0) partial.reset();
    if ((state.status >> bit & 1) != 0) partial = problem.to.partials[static_cast<std::size_t>(atom(bit))];
  }
  return layout;
}

}  // namespace tessera::layout::detail
