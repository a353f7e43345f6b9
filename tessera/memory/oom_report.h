// Why a request failed: where every byte of the device is, and what would have made the request fit. Pure: the
// allocator gathers OomFacts, everything here is computed from them.
//
// The account, exact in bytes:
//   total = free + other processes + own outside the allocator + reserved
//   reserved = live by label + rounding + pending by stream + cached by pool and stream
// Private pools are part of these sums and also shown by themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/memory/snapshot.h"

namespace tessera::memory {

/// What stood in the way, most telling first: a later one is named only where no earlier one explains the failure.
enum class OomCause : std::uint8_t {
  kLargerThanDevice,  ///< the device could never hold it
  kPending,           ///< enough is freed, but streams or graphs may still use it
  kFragmentation,     ///< enough is cached, in pieces that are too small
  kPrivatePool,       ///< enough is cached in another pool that keeps it to itself
  kLimit,             ///< the device has room, the limit set on the allocator or on the process has none
  kOtherProcess,      ///< other processes hold most of the device
  kOutsideAllocator,  ///< this process holds most of the device outside the allocator
  kLabelGrew,         ///< it is all in use; one label holds the largest part
};
/// "larger than device", "pending", ...
TESSERA_API std::string_view to_string(OomCause cause);

/// What is known when a request fails. Sizes in bytes.
struct OomFacts {
  std::string device = {};             ///< name of the allocator: "cuda:0"
  std::uint64_t requested_nbytes = 0;  ///< asked for by the user
  std::uint64_t rounded_nbytes = 0;    ///< size of the block it needs
  std::uint64_t growth_nbytes = 0;     ///< what the upstream was asked for; 0: as rounded
  StreamId stream = {};                ///< for work on this stream
  PoolId pool = {};                    ///< from this pool
  std::string label = {};              ///< Label in force; empty: none
  bool is_in_capture = false;          ///< where nothing can be waited for or given back

  std::uint64_t device_total_nbytes = 0;             ///< memory of the device; 0: not known
  std::uint64_t device_free_nbytes = 0;              ///< free, as the driver says
  std::optional<std::uint64_t> process_nbytes = {};  ///< held by this process in all; nothing: not known
  std::uint64_t other_allocators_nbytes = 0;         ///< reserved by other allocators of this process on this device
  std::uint64_t limit_nbytes = 0;                    ///< set on the allocator; 0: none
  std::uint64_t address_limit_nbytes = 0;            ///< of the process's address space (RLIMIT_AS); 0: none
  std::uint64_t address_nbytes = 0;                  ///< of the process's address space in use, if it has a limit
  std::vector<PoolId> borrowable_pools = {};         ///< those that lend their cached memory
  Snapshot snapshot = {};                            ///< what the allocator holds
  std::vector<std::string> ladder = {};              ///< steps that were tried, with their results
};

/// Where the device's memory is. total + excess = free + other processes + own outside + unattributed + reserved.
struct OomAccount {
  std::uint64_t total_nbytes = 0;            ///< of the device; 0: not known, and then only `reserved` is
  std::uint64_t free_nbytes = 0;             ///< free
  std::uint64_t other_processes_nbytes = 0;  ///< held by others
  std::uint64_t own_outside_nbytes = 0;      ///< held by this process outside this allocator
  std::uint64_t unattributed_nbytes = 0;     ///< held by others or by this process outside: the driver does not tell
  std::uint64_t excess_nbytes = 0;           ///< more than the device has is claimed; 0 unless the numbers disagree
  Totals reserved = {};                      ///< held by this allocator
  /// Whether both sums are exact.
  [[nodiscard]] TESSERA_API bool closes() const;
};

/// Adds it up.
TESSERA_API OomAccount account_of(const OomFacts& facts);

/// What would have made the request fit.
struct OomDiagnosis {
  OomCause cause = OomCause::kLabelGrew;  ///< the class
  std::string sentence;                   ///< with numbers, without a full stop
};

/// Finds the cause.
TESSERA_API OomDiagnosis diagnose(const OomFacts& facts);

/// The report for people. Its first line is one sentence that says all that is needed.
TESSERA_API std::string to_text(const OomFacts& facts);
/// The report for programs: an object, sizes in bytes, every label, stream, pool and call site.
TESSERA_API std::string to_json(const OomFacts& facts);

/// A request that found no room. message() is the first line of the report.
class TESSERA_API OutOfMemoryError : public OutOfMemory {
 public:
  /// Makes the report.
  OutOfMemoryError(SourcePlace place, const OomFacts& facts);
  /// The report as text.
  [[nodiscard]] const std::string& report() const { return report_; }
  /// The report as JSON.
  [[nodiscard]] const std::string& json() const { return json_; }
  /// What stood in the way.
  [[nodiscard]] OomCause cause() const { return cause_; }

 private:
  OutOfMemoryError(SourcePlace place, std::string report, std::string json, OomCause cause);
  std::string report_;
  std::string json_;
  OomCause cause_;
};

}  // namespace tessera::memory
