// The library of Open MPI, loaded on first use and never linked. MPI_COMM_WORLD and MPI_BYTE of mpi.h are addresses of
// data inside the library, so they are looked up like its functions.
//
// MPI_Init and MPI_Finalize wait for every process of the job. Either all ranks of the world call start() or none. At
// exit, leave() of every communicator is called before MPI_Finalize, so that ranks that still wait are informed.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::comm::mpi {

/// The functions in use, named as in mpi.h without MPI_.
struct Functions {
  decltype(&::MPI_Initialized) initialized;
  decltype(&::MPI_Finalized) finalized;
  decltype(&::MPI_Init_thread) init_thread;
  decltype(&::MPI_Query_thread) query_thread;
  decltype(&::MPI_Finalize) finalize;
  decltype(&::MPI_Error_string) error_string;
  decltype(&::MPI_Comm_rank) comm_rank;
  decltype(&::MPI_Comm_size) comm_size;
  decltype(&::MPI_Comm_group) comm_group;
  decltype(&::MPI_Comm_create_group) comm_create_group;
  decltype(&::MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&::MPI_Group_incl) group_incl;
  decltype(&::MPI_Group_free) group_free;
  decltype(&::MPI_Isend) isend;
  decltype(&::MPI_Irecv) irecv;
  decltype(&::MPI_Test) test;
  decltype(&::MPI_Testsome) testsome;
  decltype(&::MPI_Cancel) cancel;
};

/// The loaded library. Thread-safe.
class MpiLibrary {
 public:
  /// Returns the library, which the first call loads. Throws NotSupported if it cannot be loaded.
  static MpiLibrary& get();
  /// Returns why this process cannot use MPI; empty if it can. Loads the library only if MPI started the process.
  static std::string why_not();

  /// Returns true if MPI is initialized and not finalized.
  [[nodiscard]] bool is_running() const;
  /// Initializes MPI unless it is initialized, and then finalizes it at exit. Throws NotSupported if MPI allows calls
  /// only from its first thread.
  void start();
  /// Registers a function to call at exit before MPI is finalized, if this object finalizes it.
  void at_end(std::function<void()> what);

  [[nodiscard]] const Functions& functions() const { return functions_; }
  [[nodiscard]] MPI_Comm world() const { return world_; }
  [[nodiscard]] MPI_Datatype byte() const { return byte_; }
  [[nodiscard]] MPI_Request no_request() const { return no_request_; }
  [[nodiscard]] MPI_Errhandler errors_return() const { return errors_return_; }
  /// Returns a lock to hold during calls if MPI allows one thread at a time (below MPI_THREAD_MULTIPLE), otherwise an
  /// empty lock.
  [[nodiscard]] std::unique_lock<std::mutex> turn();
  /// Throws IoError with the message of MPI unless `code` is success.
  void check(int code, std::string_view what) const;

 private:
  MpiLibrary();
  void finalize() noexcept;

  Functions functions_ = {};
  MPI_Comm world_ = nullptr;
  MPI_Datatype byte_ = nullptr;
  MPI_Request no_request_ = nullptr;
  MPI_Errhandler errors_return_ = nullptr;
  bool takes_turns_ = false;
  bool is_started_ = false;
  std::mutex starting_;
  std::mutex calling_;
  std::mutex ending_;  // protects at_end_
  std::vector<std::function<void()>> at_end_;
};

}  // namespace tessera::comm::mpi
