#include "tessera/comm/store/detail/store_core.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::comm::detail {
namespace {

constexpr std::size_t kNumberBytes = 20;  // maximum length of a number as text

void reply_text(StoreSession& session, std::uint64_t number, Status status, std::string_view body) {
  FrameWriter(session.out, number, static_cast<std::uint8_t>(status)).text(body).finish();
}

void reply_number(StoreSession& session, std::uint64_t number, std::int64_t value) {
  FrameWriter(session.out, number, static_cast<std::uint8_t>(Status::kOk))
      .u64(static_cast<std::uint64_t>(value))
      .finish();
}

void reply_nothing(StoreSession& session, std::uint64_t number, Status status) {
  FrameWriter(session.out, number, static_cast<std::uint8_t>(status)).finish();
}

void reply_list(StoreSession& session, std::uint64_t number, Status status, const std::vector<std::string>& texts) {
  FrameWriter frame(session.out, number, static_cast<std::uint8_t>(status));
  frame.u32(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) frame.text(text);
  frame.finish();
}

// Labels are printed in errors.
std::string printable(std::string_view label) {
  std::string text(label);
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace

void StoreCore::consume(StoreSession& session, Clock::time_point now) {
  while (!session.is_refused && !session.is_bad && session.out.size() < kMaxOutBytes) {
    const std::optional<std::string_view> frame = session.reader.next();
    if (!frame) break;
    const std::optional<StoreRequest> request = parse_request(*frame);
    const bool is_greeting =
        request && (request->verb == StoreRequestKind::kHello || request->verb == StoreRequestKind::kProof);
    if (!request || is_greeting == session.is_in) {
      session.is_bad = true;
      break;
    }
    ++statistics.requests;
    if (!session.is_in) {
      greet(session, *request);
      continue;
    }
    try {
      answer(session, *request, now);
    } catch (const InvalidArgument& error) {
      reply_text(session, request->number, Status::kInvalid, error.message());
    }
  }
  if (session.reader.is_bad()) session.is_bad = true;
  if (session.is_bad) ++statistics.bad_frames;
}

void StoreCore::greet(StoreSession& session, const StoreRequest& request) {
  const bool is_first = session.server_nonce.empty();
  if (is_first != (request.verb == StoreRequestKind::kHello)) {
    session.is_bad = true;
  } else if (is_first) {
    challenge(session, request);
  } else {
    check_proof(session, request);
  }
}

void StoreCore::challenge(StoreSession& session, const StoreRequest& request) {
  if (request.version != kProtocolVersion) {
    return refuse(
        session, request,
        tessera::detail::concat("the protocol version must be ", kProtocolVersion, ", got version ", request.version));
  }
  if (request.key.size() != kNonceBytes) {
    session.is_bad = true;
    return;
  }
  session.client_nonce = request.key;
  session.server_nonce = random_nonce();
  reply_text(session, request.number, Status::kOk, session.server_nonce);
}

void StoreCore::check_proof(StoreSession& session, const StoreRequest& request) {
  const std::string expected = client_proof(secret_, session.client_nonce, session.server_nonce, request.value);
  if (request.value.size() > kMaxLabelBytes || !is_same_proof(request.key, expected))
    return refuse(session, request, "the secret does not match that of this store");
  session.is_in = true;
  const std::string label = printable(request.value);
  session.client = label + (session.client.empty() ? "" : " at ") + session.client;
  session.id = ledger_.open(label, session.client);
  session.reader.set_max(kMaxFrameBytes);
  reply_text(session, request.number, Status::kOk,
             server_proof(secret_, session.client_nonce, session.server_nonce, request.value));
}

void StoreCore::refuse(StoreSession& session, const StoreRequest& request, std::string_view why) {
  ++statistics.refused;
  session.is_refused = true;
  reply_text(session, request.number, Status::kRefused, why);
}

void StoreCore::answer(StoreSession& session, const StoreRequest& request, Clock::time_point now) {
  if (request.verb != StoreRequestKind::kWait && request.verb != StoreRequestKind::kKeys) check_key(request.key);
  switch (request.verb) {
    case StoreRequestKind::kSet:
      check_value(request.key, request.value);
      ledger_.check_key_fits(session.id, request.key, request.value.size());
      table_.set(request.key, request.value);
      ledger_.note_key(session.id, request.key, request.value.size());
      reply_nothing(session, request.number, Status::kOk);
      changed(request.key);
      break;
    case StoreRequestKind::kFind: {
      const std::string* value = table_.find(request.key);
      if (value != nullptr) {
        reply_text(session, request.number, Status::kOk, *value);
      } else {
        reply_nothing(session, request.number, Status::kNone);
      }
      break;
    }
    case StoreRequestKind::kAdd:
      ledger_.check_key_fits(session.id, request.key, kNumberBytes);
      reply_number(session, request.number, table_.add(request.key, request.by));
      ledger_.note_key(session.id, request.key, kNumberBytes);
      changed(request.key);
      break;
    case StoreRequestKind::kCompareSet: {
      check_value(request.key, request.value);
      const bool is_set = table_.is(request.key, request.expected);
      if (is_set) {
        ledger_.check_key_fits(session.id, request.key, request.value.size());
        table_.set(request.key, request.value);
        ledger_.note_key(session.id, request.key, request.value.size());
      }
      const std::string* value = table_.find(request.key);
      if (value != nullptr) {
        reply_text(session, request.number, Status::kOk, *value);
      } else {
        reply_nothing(session, request.number, Status::kNone);
      }
      if (is_set) changed(request.key);
      break;
    }
    case StoreRequestKind::kRemove:
      reply_number(session, request.number, table_.remove(request.key) ? 1 : 0);
      ledger_.forget_key(request.key);
      break;
    case StoreRequestKind::kKeys: answer_keys(session, request); break;
    case StoreRequestKind::kWait: begin_wait(session, request, now); break;
    case StoreRequestKind::kHello:
    case StoreRequestKind::kProof: break;
  }
}

void StoreCore::answer_keys(StoreSession& session, const StoreRequest& request) {
  std::vector<std::string> found;
  std::size_t nbytes = kMinBodyBytes + 4;
  table_.for_keys(request.key, [&](const std::string& key) {
    found.push_back(key);
    nbytes += 4 + key.size();
    return nbytes <= kMaxFrameBytes;
  });
  TESSERA_CHECK(nbytes <= kMaxFrameBytes, "store: too many keys start with '", request.key,
                "' for one reply; use a longer prefix");
  reply_list(session, request.number, Status::kOk, found);
}

std::size_t StoreCore::first_missing(const KeyWait& wait) const {
  std::size_t at = 0;
  while (at < wait.keys.size() && table_.find(wait.keys[at]) != nullptr) ++at;
  return at;
}

void StoreCore::begin_wait(StoreSession& session, const StoreRequest& request, Clock::time_point now) {
  for (const std::string_view key : request.keys) check_key(key);
  TESSERA_CHECK(session.waits.size() < kMaxWaits, "store: a connection must have at most ", kMaxWaits, " waits");
  constexpr std::uint64_t kLongest = std::uint64_t{365} * 24 * 3600 * 1'000'000'000;
  KeyWait wait;
  wait.session = &session;
  wait.number = request.number;
  wait.keys.assign(request.keys.begin(), request.keys.end());
  wait.deadline = now + std::chrono::nanoseconds(std::min(request.timeout_ns, kLongest));
  wait.at = first_missing(wait);
  if (wait.at == wait.keys.size()) {
    reply_nothing(session, request.number, Status::kOk);
  } else if (request.timeout_ns == 0) {
    reply_list(session, request.number, Status::kTimeout, table_.missing(wait.keys));
  } else {
    constexpr std::uint64_t kWaitBytes = 256;  // charged in addition to the keys
    wait.nbytes = kWaitBytes;
    for (const std::string& key : wait.keys) wait.nbytes += sizeof key + key.size();
    ledger_.hold(session.id, wait.nbytes);
    const std::uint64_t id = next_wait_++;
    session.waits.insert(id);
    waits_by_key_[wait.keys[wait.at]].insert(id);
    waits_by_deadline_.emplace(wait.deadline, id);
    waits_.emplace(id, std::move(wait));
    ++statistics.waits;
  }
}

void StoreCore::changed(std::string_view key) {
  const auto found = waits_by_key_.find(key);
  if (found == waits_by_key_.end()) return;
  const std::set<std::uint64_t> ids = std::move(found->second);
  waits_by_key_.erase(found);
  for (const std::uint64_t id : ids) {
    KeyWait& wait = waits_.at(id);
    // From the start: a key that had a value may have been removed since.
    wait.at = first_missing(wait);
    if (wait.at < wait.keys.size()) {
      waits_by_key_[wait.keys[wait.at]].insert(id);
      continue;
    }
    reply_nothing(*wait.session, wait.number, Status::kOk);
    end_wait(id, wait);
  }
}

// Removes a wait that is no longer registered under a key; its session has its reply.
void StoreCore::end_wait(std::uint64_t id, const KeyWait& wait) {
  woken_.push_back(wait.session);
  ledger_.release(wait.session->id, wait.nbytes);
  wait.session->waits.erase(id);
  waits_by_deadline_.erase({wait.deadline, id});
  waits_.erase(id);
  --statistics.waits;
}

void StoreCore::drop(StoreSession& session) {
  const std::set<std::uint64_t> ids = session.waits;
  for (const std::uint64_t id : ids) {
    const KeyWait& wait = waits_.at(id);
    const auto by_key = waits_by_key_.find(wait.keys[wait.at]);
    by_key->second.erase(id);
    if (by_key->second.empty()) waits_by_key_.erase(by_key);
    end_wait(id, wait);
  }
  ledger_.close(session.id);
  woken_.erase(std::remove(woken_.begin(), woken_.end(), &session), woken_.end());
}

void StoreCore::expire(Clock::time_point now) {
  while (!waits_by_deadline_.empty() && waits_by_deadline_.begin()->first <= now) {
    const std::uint64_t id = waits_by_deadline_.begin()->second;
    const KeyWait& wait = waits_.at(id);
    reply_list(*wait.session, wait.number, Status::kTimeout, table_.missing(wait.keys));
    const auto by_key = waits_by_key_.find(wait.keys[wait.at]);
    by_key->second.erase(id);
    if (by_key->second.empty()) waits_by_key_.erase(by_key);
    end_wait(id, wait);
  }
}

std::optional<StoreCore::Clock::time_point> StoreCore::next_deadline() const {
  if (waits_by_deadline_.empty()) return std::nullopt;
  return waits_by_deadline_.begin()->first;
}

}  // namespace tessera::comm::detail
