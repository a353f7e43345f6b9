#include "tessera/comm/backends/mpi/detail/library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/base/fork.h"
#include "tessera/base/log.h"

namespace tessera::comm::mpi {
namespace {

constexpr const char* kName = "libmpi.so.40";

// Returns null if the library cannot be loaded; dlerror() returns the reason once.
void* handle_of(bool is_loaded_already) {
  return ::dlopen(kName, RTLD_NOW | RTLD_LOCAL | (is_loaded_already ? RTLD_NOLOAD : 0));
}

template <class T>
void find(void* library, const char* name, T& into) {
  void* found = ::dlsym(library, name);
  TESSERA_CHECK_AS(NotSupported, found != nullptr, kName, " must be of Open MPI 4.1, got a library without ", name);
  into = reinterpret_cast<T>(found);
}

// Returns true if an MPI launcher started this process.
bool is_launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

bool is_initialized_by(void* library) {
  decltype(&::MPI_Initialized) initialized = nullptr;
  find(library, "MPI_Initialized", initialized);
  int flag = 0;
  initialized(&flag);
  return flag != 0;
}

}  // namespace

std::string MpiLibrary::why_not() {
  void* present = handle_of(/*is_loaded_already=*/true);
  if (!is_launched() && (present == nullptr || !is_initialized_by(present))) {
    return "this process was not started by mpirun or srun, and has not initialized MPI";
  }
  if (present == nullptr && handle_of(false) == nullptr) {
    const char* words = ::dlerror();
    return tessera::detail::concat(kName, " could not be loaded: ", words != nullptr ? words : "no reason given");
  }
  int flag = 0;
  get().functions().finalized(&flag);
  return flag != 0 ? "MPI is already finalized" : "";
}

MpiLibrary& MpiLibrary::get() {
  // Never destroyed: communicators that live until the end of the process still query whether MPI runs.
  static MpiLibrary* const library = new MpiLibrary();
  return *library;
}

MpiLibrary::MpiLibrary() {
  void* library = handle_of(false);
  TESSERA_CHECK_AS(NotSupported, library != nullptr, kName, " could not be loaded: ", ::dlerror());
  find(library, "MPI_Initialized", functions_.initialized);
  find(library, "MPI_Finalized", functions_.finalized);
  find(library, "MPI_Init_thread", functions_.init_thread);
  find(library, "MPI_Query_thread", functions_.query_thread);
  find(library, "MPI_Finalize", functions_.finalize);
  find(library, "MPI_Error_string", functions_.error_string);
  find(library, "MPI_Comm_rank", functions_.comm_rank);
  find(library, "MPI_Comm_size", functions_.comm_size);
  find(library, "MPI_Comm_group", functions_.comm_group);
  find(library, "MPI_Comm_create_group", functions_.comm_create_group);
  find(library, "MPI_Comm_set_errhandler", functions_.comm_set_errhandler);
  find(library, "MPI_Group_incl", functions_.group_incl);
  find(library, "MPI_Group_free", functions_.group_free);
  find(library, "MPI_Isend", functions_.isend);
  find(library, "MPI_Irecv", functions_.irecv);
  find(library, "MPI_Test", functions_.test);
  find(library, "MPI_Testsome", functions_.testsome);
  find(library, "MPI_Cancel", functions_.cancel);
  find(library, "ompi_mpi_comm_world", world_);
  find(library, "ompi_mpi_byte", byte_);
  find(library, "ompi_request_null", no_request_);
  find(library, "ompi_mpi_errors_return", errors_return_);
}

bool MpiLibrary::is_running() const {
  int is_initialized = 0;
  int is_finalized = 0;
  functions_.initialized(&is_initialized);
  functions_.finalized(&is_finalized);
  return is_initialized != 0 && is_finalized == 0;
}

void MpiLibrary::start() {
  const std::lock_guard lock(starting_);
  if (is_started_) return;
  int level = MPI_THREAD_SINGLE;
  const bool is_ours = !is_running();
  if (is_ours) {
    check(functions_.init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    static const OwnerProcess kOwner;
    std::atexit([] {
      if (kOwner.is_this()) get().finalize();
    });
  } else {
    check(functions_.query_thread(&level), "MPI_Query_thread");
  }
  TESSERA_CHECK_AS(NotSupported, level >= MPI_THREAD_SERIALIZED,
                   "MPI must allow calls from the threads of streams, got a thread level below MPI_THREAD_SERIALIZED; ",
                   "initialize it with MPI_THREAD_MULTIPLE, or let Tessera initialize it");
  takes_turns_ = level < MPI_THREAD_MULTIPLE;
  if (takes_turns_) log::warn("mpi: MPI_THREAD_SERIALIZED allows one thread at a time; groups run in turn");
  is_started_ = true;
}

void MpiLibrary::at_end(std::function<void()> what) {
  const std::lock_guard lock(ending_);
  at_end_.push_back(std::move(what));
}

void MpiLibrary::finalize() noexcept {
  if (!is_running()) return;
  {
    const std::lock_guard lock(ending_);
    for (const auto& what : at_end_) what();
  }
  functions_.finalize();
}

std::unique_lock<std::mutex> MpiLibrary::turn() {
  return takes_turns_ ? std::unique_lock(calling_) : std::unique_lock<std::mutex>();
}

void MpiLibrary::check(int code, std::string_view what) const {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  functions_.error_string(code, words, &length);
  TESSERA_THROW(IoError, what, ": ", std::string_view(words, static_cast<std::size_t>(length)));
}

}  // namespace tessera::comm::mpi
