// Request logs: equal logs have equal digests, and for different logs the first different request is named.
#include "tessera/comm/detail/symmetric/request_log.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tessera::comm::detail {
namespace {

SymmetricRequest allocate(std::uint64_t nbytes) {
  return {.kind = SymmetricRequest::Kind::kAllocate, .nbytes = nbytes};
}

RequestLog log_of(const std::vector<SymmetricRequest>& requests) {
  RequestLog log;
  for (const SymmetricRequest& request : requests) log.add(request);
  return log;
}

TEST(RequestLog, IsTheSameForTheSameRequests) {
  const std::vector<SymmetricRequest> requests = {allocate(1), allocate(2), {SymmetricRequest::Kind::kFree, 1, 0}};
  const RequestLog logs[] = {log_of(requests), log_of(requests), log_of(requests)};
  EXPECT_EQ(difference(logs), "");
  EXPECT_NE(logs[0].digest, 0U);
  EXPECT_EQ(RequestLog().digest, 0U);
}

TEST(RequestLog, EveryPartAndTheOrderOfRequestsChangeTheDigest) {
  std::set<std::uint64_t> digests;
  const std::vector<std::vector<SymmetricRequest>> all = {{allocate(1)},
                                                          {allocate(2)},
                                                          {allocate(1), allocate(2)},
                                                          {allocate(2), allocate(1)},
                                                          {allocate(0), allocate(0)},
                                                          {allocate(0), allocate(0), allocate(0)},
                                                          {{SymmetricRequest::Kind::kFree, 1, 0}},
                                                          {{SymmetricRequest::Kind::kFree, 1, 512}},
                                                          {{SymmetricRequest::Kind::kRegister, 1, 0}},
                                                          {{SymmetricRequest::Kind::kFind, 1, 0}},
                                                          {{SymmetricRequest::Kind::kFind, 1, 1}},
                                                          {{SymmetricRequest::Kind::kForget, 1, 1}}};
  for (const auto& requests : all) digests.insert(log_of(requests).digest);
  EXPECT_EQ(digests.size(), all.size());
}

TEST(RequestLog, NamesTheFirstThatDiffersByMajority) {
  const RequestLog logs[] = {log_of({allocate(1), allocate(7), allocate(9)}), log_of({allocate(1), allocate(5)}),
                             log_of({allocate(1), allocate(5)})};
  EXPECT_EQ(difference(logs), "request 2 differs: ranks 1 and 2 requested allocate(5), rank 0 requested allocate(7)");
}

TEST(RequestLog, NamesWhoAskedForNothingMore) {
  const RequestLog logs[] = {log_of({allocate(1)}), log_of({allocate(1), allocate(5)}), log_of({allocate(1)})};
  EXPECT_EQ(difference(logs), "request 2 differs: ranks 0 and 2 requested nothing more, rank 1 requested allocate(5)");
}

TEST(RequestLog, SaysSoWhereTheWordsAreGone) {
  std::vector<SymmetricRequest> requests(100, allocate(8));
  RequestLog logs[2] = {log_of(requests), {}};
  requests[10].nbytes = 9;
  logs[1] = log_of(requests);
  EXPECT_EQ(difference(logs), "requests before the last 16 differ");
  requests[99].nbytes = 10;
  logs[1] = log_of(requests);
  EXPECT_EQ(difference(logs), "request 100 differs: rank 1 requested allocate(10), rank 0 requested allocate(8)");
}

}  // namespace
}  // namespace tessera::comm::detail
