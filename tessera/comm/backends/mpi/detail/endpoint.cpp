#include "tessera/comm/backends/mpi/detail/endpoint.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/comm/detail/peer_memory/failures.h"

namespace tessera::comm::mpi {

Endpoint::Endpoint(MpiLibrary& library, MPI_Comm comm, const ConnectRequest& request)
    : library_(library),
      comm_(comm),
      rank_(request.rank),
      size_(static_cast<int>(request.ranks.size())),
      world_(request.ranks),
      has_left_(request.ranks.size()),
      receiving_(library.no_request()) {
  const std::lock_guard lock(mutex_);
  open_news();
}

MPI_Request Endpoint::send(int to, int tag, const void* from, std::size_t nbytes) {
  MPI_Request request = library_.no_request();
  const auto turn = library_.turn();
  library_.check(library_.functions().isend(from, static_cast<int>(nbytes), library_.byte(), to, tag, comm_, &request),
                 "MPI_Isend");
  return request;
}

MPI_Request Endpoint::receive(int from, int tag, void* to, std::size_t nbytes) {
  MPI_Request request = library_.no_request();
  const auto turn = library_.turn();
  library_.check(library_.functions().irecv(to, static_cast<int>(nbytes), library_.byte(), from, tag, comm_, &request),
                 "MPI_Irecv");
  return request;
}

void Endpoint::test(std::vector<MPI_Request>& requests, std::vector<int>& done) {
  done.resize(requests.size());
  int count = 0;
  {
    const auto turn = library_.turn();
    library_.check(library_.functions().testsome(static_cast<int>(requests.size()), requests.data(), &count,
                                                 done.data(), MPI_STATUSES_IGNORE),
                   "MPI_Testsome");
  }
  done.resize(count == MPI_UNDEFINED ? 0 : static_cast<std::size_t>(count));
}

void Endpoint::cancel(MPI_Request& request) {
  const auto turn = library_.turn();
  library_.functions().cancel(&request);
}

void Endpoint::open_news() { receiving_ = receive(MPI_ANY_SOURCE, tag::kNews, &incoming_, sizeof incoming_); }

void Endpoint::look() {
  const std::lock_guard lock(mutex_);
  TESSERA_CHECK_AS(AbortedError, library_.is_running(), "MPI is finalized; its groups have ended");
  if (is_left_) return;
  while (true) {
    int flag = 0;
    {
      const auto turn = library_.turn();
      library_.check(library_.functions().test(&receiving_, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    }
    if (flag == 0) break;
    const News news = incoming_;
    open_news();
    take(news);
  }
  if (telling_.empty()) return;
  std::vector<int> done;
  test(telling_, done);
  std::erase(telling_, library_.no_request());
}

void Endpoint::take(const News& news) {
  if (news.is_end == 0) {
    has_left_[static_cast<std::size_t>(news.by)].store(true, std::memory_order_release);
    return;
  }
  if (has_ended()) return;
  kind_ = static_cast<Failure::Kind>(news.kind);
  text_ = news.text;
  has_ended_.store(true, std::memory_order_release);
}

void Endpoint::tell(const News& news) {
  told_.push_back(news);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) telling_.push_back(send(peer, tag::kNews, &told_.back(), sizeof news));
  }
}

void Endpoint::end(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (has_ended() || is_left_) return;
  News news{.is_end = 1, .kind = static_cast<std::uint8_t>(failure.kind), .by = rank_, .text = {}};
  const std::size_t length = std::min(failure.text.size(), sizeof(news.text) - 1);
  std::memcpy(news.text, failure.text.data(), length);
  kind_ = failure.kind;
  text_ = failure.text;
  has_ended_.store(true, std::memory_order_release);
  if (library_.is_running()) tell(news);
}

void Endpoint::throw_end(std::string_view group) const {
  const std::lock_guard lock(mutex_);
  detail::throw_failure(kind_, text_, group);
}

void Endpoint::leave() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (is_left_ || !library_.is_running()) return;
    is_left_ = true;
    tell({.is_end = 0, .kind = 0, .by = rank_, .text = {}});
    const auto turn = library_.turn();
    library_.functions().cancel(&receiving_);
  } catch (const std::exception&) {
    // MPI can no longer send: ranks that wait for this rank notice at their deadline.
  }
}

}  // namespace tessera::comm::mpi
