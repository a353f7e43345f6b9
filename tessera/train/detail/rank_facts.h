// Comparison of the values that all ranks of a run must share before the first step: options, library, environment,
// data.
//
//   detail::StartCheck check;
//   try { check.facts = detail::start_facts(resolved(given, size)); } catch (...) { check.error =
//   std::current_exception(); } detail::check_same_on_all_ranks(check);
//
// Ranks first gather one digest each. They exchange the texts only if the digests differ. Every rank makes the same
// collective calls, and every rank throws if one of them cannot start.
#pragma once

#include <exception>
#include <span>
#include <string>
#include <vector>

#include "tessera/train/config.h"
#include "tessera/train/data/samples.h"

namespace tessera::train::detail {

/// One value that all ranks must share.
struct Fact {
  std::string name;       ///< Name as the user writes it: "train.seed", "TESSERA_COMM_CHECK".
  std::string value;      ///< Value to compare.
  std::string note = {};  ///< Shown in the error, not compared.
};

/// Facts of one rank, or the error that stops this rank.
struct StartCheck {
  std::vector<Fact> facts = {};   ///< Facts of this rank.
  std::exception_ptr error = {};  ///< Not null if this rank cannot start.
};

/// Returns library, instruction set, environment variables that ranks must share, and every option without
/// Option::may_differ.
std::vector<Fact> start_facts(const Config& resolved);
/// Returns the kind of bf16 products if ranks compute in bf16, and nothing otherwise. Kinds round differently.
std::vector<Fact> product_facts(const Config& agreed);
/// Returns the number of tokens and the digest of one part of the data: of all its tokens, or of samples spread over it
/// if it has more than 16 Mi tokens. `option` names the part, and `files` is its note.
std::vector<Fact> data_facts(const std::string& option, const std::vector<std::string>& files, const Samples& samples,
                             std::int64_t sequence);

/// Returns the differences between ranks, "train.seed is 1 on ranks 0, 2 and 2 on rank 1", the first four of them;
/// empty if there are none. `by_rank[r]` holds the facts of rank r.
std::string differing_facts(std::span<const std::vector<Fact>> by_rank);

/// Compares the facts of all ranks of the world. Collective; blocks. Throws the error of this rank if it has one;
/// otherwise, on every rank, AskedToEnd if that is the error of another rank, or InvalidArgument if another rank has an
/// error or the facts differ.
void check_same_on_all_ranks(const StartCheck& own);

}  // namespace tessera::train::detail
