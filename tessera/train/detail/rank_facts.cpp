#include "tessera/train/detail/rank_facts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/version.h"
#include "tessera/comm/process_group.h"
#include "tessera/device/device.h"
#include "tessera/ops/instruction_set.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/checkpoint/detail/hash.h"
#include "tessera/train/detail/digest.h"
#include "tessera/train/detail/run_signals.h"

namespace tessera::train::detail {
namespace {

// A rank may tokenize its data for minutes before it arrives.
constexpr auto kPatience = std::chrono::minutes(10);
constexpr std::size_t kMaxShown = 4;
// Environment variables that change the protocol between ranks or the values that they compute; the others do not.
constexpr std::array<std::string_view, 3> kSharedVariables = {"TESSERA_COMM_CHECK", "TESSERA_ON_HANG",
                                                              "TESSERA_CUDA_ATTENTION"};
// 64 MiB of tokens, 16 Ki samples of 1 Ki tokens: less than a second to read.
constexpr std::uint64_t kDigestedTokens = std::uint64_t{16} << 20;
constexpr std::int64_t kHeader = 3;  // bytes of the text, and its digest in two numbers

std::string joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text.empty() ? "''" : text;
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.message();
  } catch (const std::exception& other) {
    return other.what();
  }
}

// Serializes: 'e' and the error, or 'f' and the facts, each text preceded by its length.
std::string to_text(const StartCheck& check) {
  if (check.error) return "e" + message_of(check.error);
  std::string text = "f";
  for (const Fact& fact : check.facts) {
    for (const std::string* part : {&fact.name, &fact.value, &fact.note}) {
      const std::uint64_t size = part->size();
      text.append(reinterpret_cast<const char*>(&size), sizeof size);
      text += *part;
    }
  }
  return text;
}

std::vector<Fact> facts_from(std::string_view text) {
  text.remove_prefix(1);
  const auto next = [&text] {
    std::uint64_t size = 0;
    std::memcpy(&size, text.data(), sizeof size);
    std::string part(text.substr(sizeof size, size));
    text.remove_prefix(sizeof size + size);
    return part;
  };
  std::vector<Fact> facts;
  while (!text.empty()) {
    Fact fact;
    fact.name = next();
    fact.value = next();
    fact.note = next();
    facts.push_back(std::move(fact));
  }
  return facts;
}

// Digest of the compared values, without notes.
std::pair<std::int64_t, std::int64_t> digest_of(const StartCheck& check) {
  Digest digest;
  if (check.error) digest.add(message_of(check.error));
  for (const Fact& fact : check.facts) {
    digest.add(fact.name);
    digest.add(fact.value);
  }
  const std::string hex = digest.hex();
  return {static_cast<std::int64_t>(std::stoull(hex.substr(0, 16), nullptr, 16)),
          static_cast<std::int64_t>(std::stoull(hex.substr(16), nullptr, 16))};
}

void wait_patiently(const comm::ProcessGroup& all, const comm::Work& work) {
  if (all.deadline() < kPatience) all.extend_deadline(kPatience - all.deadline());
  work.wait();
}

// Returns the headers of all ranks, concatenated.
std::vector<std::int64_t> gathered_headers(const comm::ProcessGroup& all, const StartCheck& own, std::int64_t nbytes) {
  const device::Device host = tensor::host_device();
  const Tensor mine = Tensor::allocate(Shape{kHeader}, DType::kI64, host);
  const Tensor everyones = Tensor::allocate(Shape{kHeader * all.size()}, DType::kI64, host);
  const auto [high, low] = digest_of(own);
  const std::int64_t header[kHeader] = {nbytes, high, low};
  std::copy_n(header, kHeader, mine.data_as<std::int64_t>());
  wait_patiently(all,
                 all.all_gather(mine.data(), everyones.data(), kHeader, DType::kI64, tensor::current_stream(host)));
  const auto* first = everyones.data_as<std::int64_t>();
  return {first, first + everyones.numel()};
}

std::vector<std::string> gathered_texts(const comm::ProcessGroup& all, const std::string& own,
                                        std::span<const std::int64_t> headers) {
  const device::Device host = tensor::host_device();
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < all.size(); ++rank) counts.push_back(headers[static_cast<std::size_t>(rank * kHeader)]);
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const Tensor mine = Tensor::allocate(Shape{std::ssize(own)}, DType::kU8, host);
  const Tensor everyones = Tensor::allocate(Shape{total}, DType::kU8, host);
  std::memcpy(mine.data(), own.data(), own.size());
  wait_patiently(all, all.all_gather(mine.data(), everyones.data(), counts, DType::kU8, tensor::current_stream(host)));
  std::vector<std::string> texts;
  const char* at = reinterpret_cast<const char*>(everyones.data());
  for (const std::int64_t count : counts) {
    texts.emplace_back(at, static_cast<std::size_t>(count));
    at += count;
  }
  return texts;
}

// Ranks with one value of a fact.
struct Holders {
  std::string value;
  std::vector<std::size_t> ranks;
};

std::string text_of(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == kMaxShown) return text + " and " + std::to_string(ranks.size() - i) + " more";
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

// Returns the fact of this name; another library version may not have it.
Fact find(const std::vector<Fact>& facts, const std::string& name) {
  const auto found = std::ranges::find(facts, name, &Fact::name);
  return found != facts.end() ? *found : Fact{name, "unknown"};
}

// Returns the difference between ranks in the fact of this name; empty if none.
std::string difference_in(const std::string& name, std::span<const std::vector<Fact>> by_rank) {
  std::vector<Holders> values;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Fact fact = find(by_rank[rank], name);
    const auto same = std::ranges::find_if(
        values, [&](const Holders& each) { return find(by_rank[each.ranks.front()], name).value == fact.value; });
    if (same != values.end()) {
      same->ranks.push_back(rank);
    } else {
      values.push_back({fact.note.empty() ? fact.value : fact.value + " (" + fact.note + ")", {rank}});
    }
  }
  if (values.size() < 2) return {};
  std::string text = name + " is ";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i == kMaxShown) return text + " and " + std::to_string(values.size() - i) + " more values";
    text += (i == 0                   ? ""
             : i + 1 == values.size() ? " and "
                                      : ", ") +
            values[i].value + " on " + text_of(values[i].ranks);
  }
  return text;
}

// Returns version and build, without values that may differ between copies of one build.
std::string library_text() {
  const BuildInfo build = build_info();
  std::string text = tessera::detail::concat(build.version, ", ", build.compiler, ", ", build.build_type);
  if (!build.sanitizers.empty()) text += tessera::detail::concat(", sanitizers ", build.sanitizers);
  return text + (build.has_cuda ? ", with CUDA" : ", without CUDA");
}

// Returns the digest of all tokens of an epoch, or of samples spread over it with kDigestedTokens in total.
std::string content_digest(const Samples& samples, std::int64_t sequence) {
  Hasher hasher;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence) + 1);
  const std::uint64_t most = std::max<std::uint64_t>(kDigestedTokens / tokens.size(), 1);
  const std::uint64_t count = std::min(most, samples.per_epoch());
  for (std::uint64_t i = 0; i < count; ++i) {
    samples.read(samples.per_epoch() / count * i + samples.per_epoch() % count * i / count, tokens);
    hasher.add(std::as_bytes(std::span(tokens)));
  }
  return hasher.hex();
}

}  // namespace

std::vector<Fact> start_facts(const Config& resolved) {
  std::vector<Fact> facts{{"the library", library_text()}, {"the instruction set", ops::detail::instruction_set()}};
  for (const env::VariableState& entry : env::table()) {
    if (std::ranges::find(kSharedVariables, entry.name) != kSharedVariables.end())
      facts.push_back({entry.name, entry.value});
  }
  for (const Option& option : options()) {
    if (!option.may_differ) facts.push_back({option.name, joined(value_texts(option, resolved))});
  }
  return facts;
}

std::vector<Fact> product_facts(const Config& agreed) {
  if (agreed.train.dtype != "bf16") return {};
  return {{"the kind of bf16 products", ops::detail::bf16_products_text()}};
}

std::vector<Fact> data_facts(const std::string& option, const std::vector<std::string>& files, const Samples& samples,
                             std::int64_t sequence) {
  return {{"the number of tokens in " + option, std::to_string(samples.tokens()), joined(files)},
          {"the digest of " + option, content_digest(samples, sequence), joined(files)}};
}

std::string differing_facts(std::span<const std::vector<Fact>> by_rank) {
  std::vector<std::string> names;
  for (const std::vector<Fact>& facts : by_rank) {
    for (const Fact& fact : facts) {
      if (std::ranges::find(names, fact.name) == names.end()) names.push_back(fact.name);
    }
  }
  std::string text;
  std::size_t count = 0;
  for (const std::string& name : names) {
    const std::string difference = difference_in(name, by_rank);
    if (difference.empty() || ++count > kMaxShown) continue;
    text += (text.empty() ? "" : "; ") + difference;
  }
  if (count > kMaxShown) text += "; and " + std::to_string(count - kMaxShown) + " more";
  return text;
}

void check_same_on_all_ranks(const StartCheck& own) {
  if (current_place().world_size == 1) {  // without a group, which would begin a record in the run directory
    if (own.error) std::rethrow_exception(own.error);
    return;
  }
  const comm::ProcessGroup all = comm::world();
  const std::string text = to_text(own);
  const std::vector<std::int64_t> headers = gathered_headers(all, own, std::ssize(text));
  bool is_same = true;
  for (std::size_t i = kHeader; i < headers.size(); ++i)
    is_same &= i % kHeader == 0 || headers[i] == headers[i % kHeader];
  std::vector<std::string> texts;
  if (!is_same) texts = gathered_texts(all, text, headers);
  if (own.error) std::rethrow_exception(own.error);
  std::vector<std::vector<Fact>> by_rank;
  const std::string asked_to_end = std::string("e") + AskedToEnd().what();
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank] == asked_to_end) throw AskedToEnd();
    TESSERA_CHECK(!texts[rank].starts_with('e'), "train: rank ", rank, " cannot start: ", texts[rank].substr(1));
    by_rank.push_back(facts_from(texts[rank]));
  }
  const std::string differing = differing_facts(by_rank);
  TESSERA_CHECK(differing.empty(), "train: all ranks must have the same options, library and data; ", differing,
                "; start every rank with the same command");
}

}  // namespace tessera::train::detail
