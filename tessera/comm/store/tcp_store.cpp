#include "tessera/comm/store/tcp_store.h"

#include "tessera/base/error.h"
#include "tessera/base/fork.h"
#include "tessera/comm/store/detail/deadline.h"
#include "tessera/comm/store/detail/store_connection.h"

namespace tessera::comm {
namespace {

using detail::Answer;
using detail::BodyReader;
using detail::Status;
using detail::StoreRequest;
using detail::StoreRequestKind;

std::string name_of(const TcpStoreOptions& options) {
  return tessera::detail::concat("tcp store at ", options.host, ":", options.port);
}

std::vector<std::string> list_in(const Answer& answer) {
  BodyReader body(answer.body);
  std::vector<std::string> texts;
  const std::uint32_t count = body.u32();
  for (std::uint32_t i = 0; i < count && body.is_good(); ++i) texts.emplace_back(body.text());
  return texts;
}

std::optional<std::string> value_in(const Answer& answer) {
  if (answer.status == Status::kNone) return std::nullopt;
  return std::string(BodyReader(answer.body).text());
}

}  // namespace

struct TcpStore::State {
  explicit State(const TcpStoreOptions& given)
      : options(given),
        connection(name_of(given), given.host, given.port, given.secret, given.connect_timeout, given.label) {}

  Answer ask(const StoreRequest& request, std::chrono::nanoseconds beyond = {}) {
    owner.check("store");  // replies on the socket are for the process that opened it
    const auto timeout = beyond + options.answer_timeout;
    std::optional<Answer> answer = connection.receive(connection.send(request), detail::deadline_after(timeout));
    TESSERA_CHECK_AS(TimeoutError, answer.has_value(), name_of(options), ": no answer within ", timeout,
                     "; the process that hosts it may be stopped or unreachable");
    if (answer->status == Status::kInvalid) TESSERA_THROW(InvalidArgument, BodyReader(answer->body).text());
    return *std::move(answer);
  }

  const OwnerProcess owner;
  TcpStoreOptions options;
  detail::StoreConnection connection;
};

TcpStore::TcpStore(const TcpStoreOptions& options) {
  detail::check_secret(name_of(options), options.secret, options.allow_no_secret);
  state_ = std::make_unique<State>(options);
}
TcpStore::~TcpStore() = default;

void TcpStore::set(std::string_view key, std::string_view value) {
  check_key(key);
  check_value(key, value);
  state_->ask({.verb = StoreRequestKind::kSet, .key = key, .value = value});
}

std::optional<std::string> TcpStore::find(std::string_view key) {
  check_key(key);
  return value_in(state_->ask({.verb = StoreRequestKind::kFind, .key = key}));
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t by) {
  check_key(key);
  const Answer answer = state_->ask({.verb = StoreRequestKind::kAdd, .key = key, .by = by});
  return static_cast<std::int64_t>(BodyReader(answer.body).u64());
}

std::optional<std::string> TcpStore::compare_set(std::string_view key, std::optional<std::string_view> expected,
                                                 std::string_view desired) {
  check_key(key);
  check_value(key, desired);
  if (expected) check_value(key, *expected);
  return value_in(
      state_->ask({.verb = StoreRequestKind::kCompareSet, .key = key, .value = desired, .expected = expected}));
}

void TcpStore::wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) {
  std::size_t nbytes = 64;
  for (const std::string& key : keys) {
    check_key(key);
    nbytes += key.size() + 4;
  }
  TESSERA_CHECK(nbytes <= detail::kMaxFrameBytes, text(), ": a wait for ", keys.size(), " keys must take at most ",
                detail::kMaxFrameBytes, " bytes, got ", nbytes, "; wait for fewer keys at a time");
  StoreRequest request{.verb = StoreRequestKind::kWait};
  const auto waited = std::max(timeout, std::chrono::nanoseconds(0));
  request.timeout_ns = static_cast<std::uint64_t>(waited.count());
  request.keys.assign(keys.begin(), keys.end());
  const Answer answer = state_->ask(request, std::min<std::chrono::nanoseconds>(waited, std::chrono::hours(8760)));
  if (answer.status == Status::kTimeout) detail::throw_timeout(text(), keys.size(), list_in(answer), timeout);
}

bool TcpStore::remove(std::string_view key) {
  check_key(key);
  return BodyReader(state_->ask({.verb = StoreRequestKind::kRemove, .key = key}).body).u64() != 0;
}

std::vector<std::string> TcpStore::keys(std::string_view prefix) {
  return list_in(state_->ask({.verb = StoreRequestKind::kKeys, .key = prefix}));
}

std::string TcpStore::text() const { return name_of(state_->options); }

}  // namespace tessera::comm
