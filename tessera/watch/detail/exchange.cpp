#include "tessera/watch/detail/exchange.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera::watch::detail {
namespace {

using namespace std::chrono_literals;
using tessera::detail::concat;
using Json = nlohmann::json;

constexpr auto kPark = 60s;              // duration of one wait for an alarm
constexpr auto kCollect = 800ms;         // for the summaries of all
constexpr auto kEach = 20ms;             // delay per rank: lower ranks join first
constexpr auto kMaxDelay = 300ms;        // maximum of that delay
constexpr auto kTakeOver = 1100ms;       // if the joiner seems to have died
constexpr std::size_t kMaxWords = 1024;  // of an alarm message
constexpr std::size_t kMaxText = std::size_t{256} << 10;
constexpr std::size_t kMaxVerdict = 2 * kMaxText;

std::string alarm_key(std::uint64_t number) { return concat("watch/alarm ", number); }
std::string key_of(std::uint64_t number, const std::string& what) { return concat("watch/", number, "/", what); }
std::string end_key(int rank) { return concat("watch/end ", rank); }

std::string cut(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + "...";
}
std::string host_name() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return host;
}

}  // namespace

std::string text_of_verdict(const RankReport& told, const std::string& where) {
  const Json json = {{"format", "tessera verdict"},
                     {"version", 1},
                     {"fault", told.report.fault},
                     {"sentence", cut(told.report.sentence, kMaxText / 4)},
                     {"where", where},
                     {"text", cut(told.text, kMaxText)}};
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

HeardVerdict parse_verdict(const std::string& text) {
  TESSERA_CHECK_AS(IoError, text.size() <= kMaxVerdict, "verdict: must have at most ", kMaxVerdict, " bytes, got ",
                   text.size());
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto member = [&](const char* name) {
    const auto found = json.is_object() ? json.find(name) : json.end();
    TESSERA_CHECK_AS(IoError, json.is_object() && found != json.end() && found->is_string(),
                     "verdict: must have a text '", name, "'");
    return found->get<std::string>();
  };
  TESSERA_CHECK_AS(IoError, member("format") == "tessera verdict", "verdict: format must be 'tessera verdict'");
  HeardVerdict heard;
  heard.told.report.fault = member("fault");
  heard.told.report.sentence = member("sentence");
  heard.told.text = member("text");
  heard.where = member("where");
  return heard;
}

std::shared_ptr<SummaryExchange> SummaryExchange::start(std::shared_ptr<comm::Store> store, Teller teller,
                                                        std::function<void()> on_verdict) {
  std::shared_ptr<SummaryExchange> exchange(
      new SummaryExchange(std::move(store), std::move(teller), std::move(on_verdict)));
  std::thread([exchange] { exchange->run(); }).detach();
  return exchange;
}

SummaryExchange::SummaryExchange(std::shared_ptr<comm::Store> store, Teller teller, std::function<void()> on_verdict)
    : store_(std::move(store)), teller_(std::move(teller)), on_verdict_(std::move(on_verdict)) {}

void SummaryExchange::run() {
  ::pthread_setname_np(::pthread_self(), "summaries");
  try {
    for (std::uint64_t number = 1;;) {
      if (!comes(alarm_key(number), kPark)) continue;
      {
        const std::lock_guard lock(mutex_);
        is_answering_ = true;
      }
      answer(number++);
      {
        const std::lock_guard lock(mutex_);
        is_answering_ = false;
        next_ = number;
      }
      changed_.notify_all();
      on_verdict_();
    }
  } catch (...) {
    // The store is gone with its host, or memory ran out: nothing more can be received.
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
}

bool SummaryExchange::comes(const std::string& key, std::chrono::nanoseconds timeout) {
  try {
    store_->wait(std::span(&key, 1), timeout);
    return true;
  } catch (const TimeoutError&) {
    return false;
  }
}

void SummaryExchange::answer(std::uint64_t number) {
  store_->set(key_of(number, concat("summary ", teller_.rank)), summary_of(teller_));
  const std::string verdict = key_of(number, "verdict");
  if (!comes(verdict, std::min<std::chrono::milliseconds>(teller_.rank * kEach, kMaxDelay))) {
    const std::string self = std::to_string(teller_.rank);
    const bool is_joiner = store_->compare_set(key_of(number, "joiner"), std::nullopt, self) == self;
    if (is_joiner || !comes(verdict, kTakeOver)) {
      const std::string words = cut(store_->find(alarm_key(number)).value_or(""), kMaxWords);
      (void)store_->compare_set(verdict, std::nullopt, join(number, words));
    }
  }
  take(store_->find(verdict).value_or(""));
}

std::string SummaryExchange::join(std::uint64_t number, const std::string& words) {
  const auto summary_key = [&](int rank) { return key_of(number, concat("summary ", rank)); };
  std::vector<std::string> keys;
  for (int rank = 0; rank < teller_.world_size; ++rank) {
    if (!store_->find(end_key(rank))) keys.push_back(summary_key(rank));
  }
  try {
    store_->wait(keys, kCollect);
  } catch (const TimeoutError&) {
    // A rank that cannot report appears in the summaries of others, or is missing.
  }
  std::map<int, std::string> summaries;
  for (int rank = 0; rank < teller_.world_size; ++rank) {
    // The end comes last: a rank can answer the alarm while it ends, before it has recorded the reason.
    std::optional<std::string> text = store_->find(end_key(rank));
    if (!text) text = store_->find(summary_key(rank));
    if (text) summaries.emplace(rank, *std::move(text));
  }
  const RankReport told = make_report(joined(teller_.world_size, summaries), teller_.run_dir, words);
  return text_of_verdict(told, told.report.path.empty() ? "" : host_name() + ":" + told.report.path);
}

void SummaryExchange::take(const std::string& verdict) {
  try {
    HeardVerdict heard = parse_verdict(verdict);
    Report report = heard.told.report;
    report.path = heard.where;
    if (!teller_.run_dir.empty()) {
      report.path = teller_.run_dir + "/explain.txt";
      if (heard.where != host_name() + ":" + report.path)
        write_received_report(teller_.run_dir, heard.told, heard.where);
    }
    const std::lock_guard lock(mutex_);
    verdict_ = std::move(report);
    heard_at_ = Clock::now();
  } catch (const Error& error) {
    log::warn("watchdog: cannot exchange the verdict: ", error.what());
  }
}

std::optional<Report> SummaryExchange::ask(const std::string& words, Clock::time_point since, Clock::time_point until) {
  std::unique_lock lock(mutex_);
  const auto has_verdict = [&] { return verdict_ && heard_at_ >= since; };
  if (!has_verdict() && !is_answering_ && !is_over_) {
    // On a separate thread: the store may not answer for long.
    std::thread([self = shared_from_this(), key = alarm_key(next_), words = cut(words, kMaxWords)] {
      try {
        self->store_->set(key, words);
      } catch (...) {
        // Then there is no common verdict, and the rank reports what it knows.
      }
    }).detach();
  }
  (void)changed_.wait_until(lock, until, [&] { return has_verdict() || is_over_; });
  return has_verdict() ? verdict_ : std::nullopt;
}

std::optional<Report> SummaryExchange::heard(Clock::time_point since) {
  const std::lock_guard lock(mutex_);
  return verdict_ && heard_at_ >= since ? verdict_ : std::nullopt;
}

void SummaryExchange::leave(bool has_failed, std::chrono::milliseconds patience) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
  }
  // Taken by this thread: the record is gone soon after.
  std::string summary = summary_of(teller_, !has_failed);
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> is_done = done->get_future();
  std::thread([self = shared_from_this(), summary = std::move(summary), done] {
    try {
      self->store_->set(end_key(self->teller_.rank), summary);
    } catch (...) {
      // No rank receives it.
    }
    done->set_value();
  }).detach();
  (void)is_done.wait_for(patience);
}

}  // namespace tessera::watch::detail
