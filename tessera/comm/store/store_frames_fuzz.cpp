// Feeds bytes to the server side of a store. Valid requests of many connections, in arbitrary chunks, get the replies
// of a plain map. The same bytes, corrupted at random, never crash the server, never pass the handshake, never exceed
// its limits, and never disturb other connections.
//   comm_store_frames_fuzz [--runs N] [--seed S] [--seconds T]
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/comm/store/detail/store_core.h"

namespace tessera::comm::detail {
namespace {

using Random = std::mt19937_64;
using Model = std::map<std::string, std::string>;

constexpr std::string_view kSecret = "open sesame";

const std::string kNonce(kNonceBytes, 'n');

std::string hello() {
  std::string bytes;
  write_request(bytes, {.number = 0, .verb = StoreRequestKind::kHello, .key = kNonce, .version = kProtocolVersion});
  return bytes;
}

std::string proof(std::string_view secret, std::string_view server_nonce) {
  std::string bytes;
  const std::string own = client_proof(secret, kNonce, server_nonce, "fuzz");
  write_request(bytes, {.number = 0, .verb = StoreRequestKind::kProof, .key = own, .value = "fuzz"});
  return bytes;
}

std::string random_key(Random& random) { return "k" + std::to_string(random() % 5); }

// A request that does not wait, and the expected frame of its reply.
struct Exchange {
  std::string request;
  std::string reply;
};

std::string text_reply(std::uint64_t number, const std::string* value) {
  std::string bytes;
  FrameWriter frame(bytes, number, static_cast<std::uint8_t>(value != nullptr ? Status::kOk : Status::kNone));
  if (value != nullptr) frame.text(*value);
  frame.finish();
  return bytes;
}

const std::string* find(const Model& model, const std::string& key) {
  const auto at = model.find(key);
  return at == model.end() ? nullptr : &at->second;
}

Exchange random_exchange(Model& model, std::uint64_t number, Random& random) {
  Exchange exchange;
  const std::string key = random_key(random);
  const std::string value(random() % 3 == 0 ? random() % 2000 : random() % 4, static_cast<char>('a' + random() % 3));
  StoreRequest request{.number = number, .key = key};
  FrameWriter reply(exchange.reply, number, 0);
  switch (random() % 5) {
    case 0:
      request.verb = StoreRequestKind::kSet;
      request.value = value;
      model[key] = value;
      reply.finish();
      break;
    case 1:
      request.verb = StoreRequestKind::kFind;
      exchange.reply = text_reply(number, find(model, key));
      break;
    case 2:
      request.verb = StoreRequestKind::kRemove;
      reply.u64(model.erase(key)).finish();
      break;
    case 3: {
      request.verb = StoreRequestKind::kCompareSet;
      const std::string* old = find(model, key);
      if (random() % 2 == 0 && old != nullptr) request.expected = *old;
      request.value = value;
      write_request(exchange.request, request);
      if (old == nullptr ? !request.expected : request.expected.has_value()) model[key] = value;
      exchange.reply = text_reply(number, find(model, key));
      return exchange;
    }
    default: {
      request.verb = StoreRequestKind::kKeys;
      request.key = "k";
      reply.u32(static_cast<std::uint32_t>(model.size()));
      for (const auto& [name, ignored] : model) reply.text(name);
      reply.finish();
    }
  }
  write_request(exchange.request, request);
  return exchange;
}

void put(StoreSession& session, std::string_view bytes) {
  std::memcpy(session.reader.room(bytes.size()), bytes.data(), bytes.size());
  session.reader.filled(bytes.size());
}

// Feeds bytes in random chunks and takes replies as a socket would: some of them, at any time.
std::string feed(StoreCore& core, StoreSession& session, std::string_view bytes, Random& random) {
  std::string taken;
  const auto now = StoreCore::Clock::now();
  while (!bytes.empty() && !session.is_bad && !session.is_refused) {
    const std::size_t piece = std::min<std::size_t>(bytes.size(), 1 + random() % (random() % 2 == 0 ? 8 : 5000));
    put(session, bytes.substr(0, piece));
    bytes.remove_prefix(piece);
    core.consume(session, now);
    if (session.out.size() > StoreCore::kMaxOutBytes + kMaxFrameBytes + 64)
      throw std::runtime_error("too much to go out");
    if (random() % 2 == 0) taken += std::exchange(session.out, {});
  }
  taken += std::exchange(session.out, {});
  // Requests that waited for room.
  while (!session.is_bad && !session.is_refused) {
    core.consume(session, now);
    if (session.out.empty()) break;
    taken += std::exchange(session.out, {});
  }
  return taken;
}

// Runs the handshake of a client that knows the secret. Returns false if either side did not prove the secret.
bool enter(StoreCore& core, StoreSession& session, Random& random) {
  feed(core, session, hello(), random);
  const std::string nonce = session.server_nonce;
  std::string expected;
  FrameWriter(expected, 0, 0).text(server_proof(kSecret, kNonce, nonce, "fuzz")).finish();
  return feed(core, session, proof(kSecret, nonce), random) == expected && session.is_in;
}

std::string spoilt(std::string bytes, Random& random) {
  const std::size_t times = 1 + random() % 4;
  for (std::size_t i = 0; i < times && !bytes.empty(); ++i) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 6) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] ^= static_cast<char>(1U << random() % 8); break;
      case 2: bytes.erase(at, random() % 12); break;
      case 3: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 60)); break;
      case 4: bytes.resize(at); break;
      default: bytes.insert(at, std::string(1 + random() % 4, random() % 2 == 0 ? '\0' : '\xff'));
    }
  }
  return bytes;
}

std::string random_wait(Random& random) {
  std::string bytes;
  StoreRequest request{.number = random(),
                       .verb = StoreRequestKind::kWait,
                       .timeout_ns = random() % 3 == 0 ? 0 : random() >> (random() % 64)};
  std::vector<std::string> keys(random() % 4);
  for (std::string& key : keys) key = random_key(random);
  request.keys.assign(keys.begin(), keys.end());
  write_request(bytes, request);
  return bytes;
}

// Returns the first bytes of a client that does not know the secret: a handshake with another secret, for another
// nonce, or corrupted.
std::string random_greeting(Random& random) {
  std::string bytes = hello();
  switch (random() % 4) {
    case 0: bytes += proof("another secret", random_nonce()); break;
    case 1: bytes += proof(kSecret, random_nonce()); break;  // a recorded proof
    case 2:
      write_request(bytes, {.verb = StoreRequestKind::kProof, .key = std::string(random() % 64, 'p'), .value = "x"});
      break;
    default: write_request(bytes, {.verb = StoreRequestKind::kHello, .key = kNonce, .version = kProtocolVersion});
  }
  return random() % 2 == 0 ? bytes : spoilt(bytes, random);
}

std::string run_good(Random& random) {
  StoreCore core{std::string(kSecret)};
  StoreSession session;
  Model model;
  if (!enter(core, session, random)) return "the right secret was not let in";
  std::string requests;
  std::string replies;
  for (std::uint64_t i = 1; i <= 40; ++i) {
    const Exchange exchange = random_exchange(model, i, random);
    requests += exchange.request;
    replies += exchange.reply;
  }
  if (feed(core, session, requests, random) != replies) return "the replies are not those of a map";
  for (const auto& [key, value] : model) {
    const std::string* kept = core.table().find(key);
    if (kept == nullptr || *kept != value) return "the values are not those of a map";
  }
  std::string removals;
  for (const auto& [key, value] : model) write_request(removals, {.verb = StoreRequestKind::kRemove, .key = key});
  feed(core, session, removals, random);
  core.drop(session);
  if (core.ledger().total() != 0) return "bytes are charged for keys that are gone";
  return {};
}

// Some connections behave, wait and leave; others send corrupted bytes, with or without the secret.
std::string run_hostile(Random& random) {
  StoreCore core{std::string(kSecret)};
  Model model;
  StoreSession good;
  enter(core, good, random);
  std::vector<std::unique_ptr<StoreSession>> others;
  for (int round = 0; round < 6; ++round) {
    const bool is_stranger = random() % 3 == 0;
    others.push_back(std::make_unique<StoreSession>());
    std::string bytes = is_stranger ? random_greeting(random) : std::string();
    if (!is_stranger && !enter(core, *others.back(), random)) return "the right secret was not let in";
    Model ignored;
    for (std::uint64_t i = 0; i < random() % 30; ++i)
      bytes += random() % 3 == 0 ? random_wait(random) : random_exchange(ignored, i, random).request;
    const std::uint64_t before = core.statistics.requests;
    feed(core, *others.back(), is_stranger || random() % 8 == 0 ? bytes : spoilt(bytes, random), random);
    if (is_stranger && others.back()->is_in) return "a wrong secret was let in";
    if (!others.back()->is_in && core.statistics.requests > before + 2) return "requests were taken before the secret";
    // Whatever they did to the values, the good connection gets its reply in time.
    std::string wait;
    StoreRequest request{.number = 1, .verb = StoreRequestKind::kWait, .timeout_ns = 1};
    request.keys = {"never there"};
    write_request(wait, request);
    feed(core, good, wait, random);
    core.expire(StoreCore::Clock::now() + std::chrono::seconds(1));
    const std::string answer = std::exchange(good.out, {});
    if (good.is_bad || answer.size() < 13 || answer[12] != static_cast<char>(Status::kTimeout))
      return "another connection was disturbed";
    if (random() % 2 == 0) {
      core.drop(*others.front());
      others.erase(others.begin());
    }
  }
  for (const auto& session : others) core.drop(*session);
  core.drop(good);
  if (core.statistics.waits != 0 || core.next_deadline()) return "waits were left behind";
  if (core.ledger().total() > StoreLimits{}.total_bytes) return "more is held than the bound";
  if (!core.take_woken().empty()) return "a connection that is gone would be written to";
  return {};
}

// A client that does not start with a proof of the secret gets nothing, whatever it sends.
std::string run_strangers(Random& random) {
  StoreCore core{std::string(kSecret)};
  Model model;
  std::string requests;
  for (std::uint64_t i = 0; i < 1 + random() % 5; ++i) requests += random_exchange(model, i, random).request;
  StoreSession no_hello;
  if (!feed(core, no_hello, requests + hello(), random).empty() || !no_hello.is_bad)
    return "requests were answered before the secret";
  StoreSession no_proof;
  feed(core, no_proof, hello() + requests, random);
  if (no_proof.is_in || !no_proof.is_bad) return "requests were taken in place of a proof";
  StoreSession second_try;
  feed(core, second_try, hello(), random);
  const std::string nonce = second_try.server_nonce;
  const std::string seen = feed(core, second_try, proof("wrong", nonce) + proof(kSecret, nonce) + requests, random);
  if (second_try.is_in || !second_try.is_refused) return "a second proof was looked at";
  if (seen.size() < 13 || seen[12] != static_cast<char>(Status::kRefused)) return "a wrong secret was not refused";
  StoreSession replayed;
  feed(core, replayed, hello() + proof(kSecret, nonce), random);
  if (replayed.is_in || !replayed.is_refused) return "a recorded handshake was let in";
  StoreSession again;
  enter(core, again, random);
  feed(core, again, random() % 2 == 0 ? hello() : proof(kSecret, nonce), random);
  if (!again.is_bad) return "a second handshake was taken";
  bool is_empty = true;
  core.table().for_keys("", [&](const std::string&) { return is_empty = false; });
  return is_empty ? "" : "a stranger changed values";
}

// A client that sends many requests and takes no replies makes the store hold at most its limit and one reply.
std::string run_greedy(Random& random) {
  StoreCore core{std::string(kSecret)};
  StoreSession session;
  const std::string value(1 + random() % (1U << 20), 'v');
  if (!enter(core, session, random)) return "the right secret was not let in";
  std::string requests;
  write_request(requests, {.number = 1, .verb = StoreRequestKind::kSet, .key = "k", .value = value});
  const std::uint64_t finds = 20;
  for (std::uint64_t i = 0; i < finds; ++i)
    write_request(requests, {.number = 2 + i, .verb = StoreRequestKind::kFind, .key = "k"});
  const std::size_t reply_bytes = kHeadBytes + kMinBodyBytes + 4 + value.size();
  const auto now = StoreCore::Clock::now();
  put(session, requests);
  std::size_t taken = 0;
  for (core.consume(session, now); !session.out.empty(); core.consume(session, now)) {
    if (session.is_bad) return "good requests were refused";
    if (session.out.size() > StoreCore::kMaxOutBytes + reply_bytes) return "too much is held for who takes nothing";
    taken += std::exchange(session.out, {}).size();
  }
  const std::size_t small = kHeadBytes + kMinBodyBytes;
  return taken == small + finds * reply_bytes ? "" : "replies are missing";
}

std::string run_one(std::uint64_t seed) {
  Random random(seed);
  std::string problem = run_good(random);
  if (problem.empty()) problem = run_hostile(random);
  if (problem.empty()) problem = run_strangers(random);
  if (problem.empty() && seed % 16 == 0) problem = run_greedy(random);
  return problem;
}

}  // namespace
}  // namespace tessera::comm::detail

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "conversations", tessera::comm::detail::run_one);
}
