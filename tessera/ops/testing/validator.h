// Proves sharding rules by running them. For each sample of an operator's case and each combination of input layouts
// that layout::propagate admits by the operator's rule, the inputs are cut up, every rank makes its local call through
// the normal path, and what comes out, put together by the output layouts that propagate gave, must be what the call
// on the whole gives.
//
// Meshes: 2 and 3 ranks (every combination; cuts even, uneven, empty, of given sizes with the first part empty, and in
// blocks), 2x2 and 2x3 (every combination; both orders of two cuts of a dimension), 2x2x2 (every multiset of what an
// axis may do). Partial inputs of every kind that the rule admits, in kPartStyles ways, and with all floating inputs
// negated. Operators that make tensors from nothing are tried with every layout of their result.
//
// A result that is empty or all zeros proves nothing and is not counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/ops/testing/op_case.h"
#include "tessera/ops/testing/recombine.h"

namespace tessera::ops::testing {

/// How much is tried.
struct ValidatorOptions {
  std::uint64_t seed = 1;
  std::size_t most = 64;       // combinations of a sample on a mesh of several axes; of more, so many are drawn
  std::size_t samples = 1000;  // of an operator: the first so many
  std::size_t most_wrong = 3;  // of an operator; then it is left
};

/// The samples of a case that are tried.
std::vector<OpSample> first_samples(const OpCaseInfo& info, const ValidatorOptions& options, Random& random);

/// What was tried, and what is wrong.
struct Validation {
  std::vector<std::string> wrong;  // "mm(...) {Shard(0)}, ... -> ...: what", at most ValidatorOptions::most_wrong
  std::vector<std::string> notes;  // what could not be tried, and why
  std::vector<std::string> stuck;  // backward: what had to move and should not, at most a few
  std::int64_t admitted = 0;       // combinations that the rules admit
  std::int64_t tried = 0;          // of these
  std::int64_t vacuous = 0;        // of these, with results that prove nothing
  std::int64_t even = 0;           // tried with a dimension cut into equal pieces
  std::int64_t uneven = 0;         // into others, none empty
  std::int64_t empty = 0;          // some empty
  std::int64_t partial = 0;        // with a partial input
  std::int64_t moves = 0;          // backward: inputs inside of gradients that had to be gathered
  std::int64_t local_calls = 0;    // made

  /// Adds another's.
  void add(const Validation& other);
  /// "1234 combinations of 2345 (10 prove nothing), ...".
  [[nodiscard]] std::string text() const;
};

/// Tries the rule of a case's operator; nothing where it has none.
Validation validate(const OpCaseInfo& info, const ValidatorOptions& options = {});
/// Likewise its gradient: of each combination, the gradients of the inputs computed from the cut inputs, results and
/// gradient of the result (cut as the result is; replicated or pending where it is not cut) must be those of the whole.
/// A gradient has the input's cuts, and is partial (sum or avg) at most where the input is replicated; nothing has to
/// be moved for it, but where an input of the call is partial.
Validation validate_backward(const OpCaseInfo& info, const ValidatorOptions& options = {});
/// Combinations on a mesh of two ranks that are right in every sample and that the rule does not admit, one line each:
/// "add: {Shard(0)}, {Shard(0)} -> {Shard(0)} (3 samples)".
std::vector<std::string> find_missing(const OpCaseInfo& info, const ValidatorOptions& options = {});

}  // namespace tessera::ops::testing
