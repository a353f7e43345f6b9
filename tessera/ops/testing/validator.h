// Validates sharding rules by running them. For each sample of a case and each combination of input layouts that
// layout::propagate admits by the rule of the operator, shards the inputs, makes the local call of every rank through
// the normal path, and recombines the results by the output layouts of propagate. They must match the result of the
// global call.
//
// Meshes: 2 and 3 ranks (every combination; even, uneven and empty shards, given sizes with an empty first shard, and
// blocks), 2x2 and 2x3 (every combination; both orders of two axes on one dimension), 2x2x2 (every multiset of the
// placements of an axis). Partial inputs of every kind that the rule admits, in kPartStyles ways, and with all floating
// inputs negated. Operators without inputs are tried with every layout of their result.
//
// Results that are empty or all zeros prove nothing and are not counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/ops/testing/op_case.h"
#include "tessera/ops/testing/recombine.h"

namespace tessera::ops::testing {

/// Limits of a validation.
struct ValidatorOptions {
  std::uint64_t seed = 1;
  std::size_t most = 64;       // combinations of a sample on a mesh of several axes; beyond this, a random selection
  std::size_t samples = 1000;  // samples per operator
  std::size_t max_wrong = 3;   // errors per operator before it is skipped
};

/// Returns the samples of a case within the limit.
std::vector<OpSample> first_samples(const OpCaseInfo& info, const ValidatorOptions& options, Random& random);

/// Counts and errors of a validation.
struct Validation {
  std::vector<std::string> wrong;  // "mm(...) {Shard(0)}, ... -> ...: what", at most ValidatorOptions::max_wrong
  std::vector<std::string> notes;  // skipped checks with reasons
  std::vector<std::string> stuck;  // backward: unexpected moves, limited to a few
  std::int64_t admitted = 0;       // combinations that the rules admit
  std::int64_t tried = 0;          // of the admitted combinations
  std::int64_t vacuous = 0;        // of the tried combinations, with results that prove nothing
  std::int64_t even = 0;           // tried with a dimension in equal shards
  std::int64_t uneven = 0;         // tried with unequal shards, none empty
  std::int64_t empty = 0;          // tried with some empty shards
  std::int64_t partial = 0;        // tried with a partial input
  std::int64_t moves = 0;          // backward: inputs of operators in gradients that were gathered
  std::int64_t local_calls = 0;    // local calls made

  /// Adds the counts and errors of `other`.
  void add(const Validation& other);
  /// Returns for example "1234 combinations of 2345 (10 prove nothing), ...".
  [[nodiscard]] std::string text() const;
};

/// Validates the rule of the operator of a case, if it has one.
Validation validate(const OpCaseInfo& info, const ValidatorOptions& options = {});
/// Validates the gradient. For each combination, the gradients of the inputs, computed from the sharded inputs, results
/// and gradient of the result (sharded as the result is; replicated or partial otherwise), must match those of the
/// global call. A gradient has the sharding of the input, and may be partial (sum or avg) only where the input is
/// replicated. It requires no moves unless an input of the call is partial.
Validation validate_backward(const OpCaseInfo& info, const ValidatorOptions& options = {});
/// Returns the combinations on a mesh of two ranks that are right in every sample but not admitted by the rule, one
/// line each: "add: {Shard(0)}, {Shard(0)} -> {Shard(0)} (3 samples)".
std::vector<std::string> find_missing(const OpCaseInfo& info, const ValidatorOptions& options = {});

}  // namespace tessera::ops::testing
