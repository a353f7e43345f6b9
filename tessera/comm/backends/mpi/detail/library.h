// Open MPI's library, loaded when it is first needed, never linked. What mpi.h calls MPI_COMM_WORLD or MPI_BYTE are
// addresses of data inside the library, so they are looked up like its functions.
//
// MPI_Init waits for every process of the job and MPI_Finalize does too: start() is called by all ranks of the world or
// by none, and at exit leave() of every communicator comes before MPI_Finalize, so that who still waits is told.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::comm::mpi {

/// The functions we call, by the names they have in mpi.h without their MPI_.
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

/// See the head of this file. Thread-safe.
class Library {
 public:
  /// Loaded when first called; NotSupported says why it cannot be.
  static Library& get();
  /// Why there is no MPI for this process; empty: there is. Loads the library only where MPI started the process.
  static std::string why_not();

  /// Whether MPI runs: initialised and not finalised.
  [[nodiscard]] bool is_running() const;
  /// Initialises MPI unless that is done; ends it at exit if it was done here. NotSupported where it allows calls from
  /// its first thread alone.
  void start();
  /// Called at exit before MPI is finalised, if that is done here.
  void at_end(std::function<void()> what);

  [[nodiscard]] const Functions& functions() const { return functions_; }
  [[nodiscard]] MPI_Comm world() const { return world_; }
  [[nodiscard]] MPI_Datatype byte() const { return byte_; }
  [[nodiscard]] MPI_Request no_request() const { return no_request_; }
  [[nodiscard]] MPI_Errhandler errors_return() const { return errors_return_; }
  /// Held around calls: a lock where MPI wants one thread at a time (less than MPI_THREAD_MULTIPLE), else nothing.
  [[nodiscard]] std::unique_lock<std::mutex> turn();
  /// Throws IoError with MPI's words unless `code` is success.
  void check(int code, std::string_view what) const;

 private:
  Library();
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
  std::mutex ending_;  // for at_end_
  std::vector<std::function<void()>> at_end_;
};

}  // namespace tessera::comm::mpi
