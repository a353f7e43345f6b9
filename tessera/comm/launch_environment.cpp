#include "tessera/comm/launch_environment.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/comm/store/open_store.h"

namespace tessera::comm {
namespace {

// An empty value counts as unset, as in tessera/base/env.
const std::string* find(const EnvironmentMap& environment, const std::string& name) {
  const auto at = environment.find(name);
  return at == environment.end() || at->second.empty() ? nullptr : &at->second;
}

std::optional<int> number(const EnvironmentMap& environment, const std::string& name, int least) {
  const std::string* text = find(environment, name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), value);
  TESSERA_CHECK(problem == std::errc() && end == text->data() + text->size() && value >= least, "environment variable ",
                name, "='", *text, "' must be an integer of at least ", least);
  return value;
}

// The place that one launcher sets, with the names of the variables for errors.
struct Claim {
  std::string launcher;
  std::string rank_name;
  std::string size_name;
  std::string local_rank_name;
  std::string local_size_name;
  std::optional<int> rank = {};
  std::optional<int> size = {};
  std::optional<int> local_rank = {};
  std::optional<int> local_size = {};
};

Claim claim(const EnvironmentMap& environment, Claim names) {
  names.rank = number(environment, names.rank_name, 0);
  names.size = number(environment, names.size_name, 1);
  names.local_rank = number(environment, names.local_rank_name, 0);
  names.local_size = number(environment, names.local_size_name, 1);
  return names;
}

// Returns the number of tasks on this node, from "2(x3),1" and the index of the node in that list.
std::optional<int> slurm_local_size(const EnvironmentMap& environment) {
  const std::string* text = find(environment, "SLURM_STEP_TASKS_PER_NODE");
  const std::optional<int> node = number(environment, "SLURM_NODEID", 0);
  if (text == nullptr || !node) return std::nullopt;
  int before = 0;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    int tasks = 0;
    int times = 1;
    const char* const stop = item.data() + item.size();
    auto [end, problem] = std::from_chars(item.data(), stop, tasks);
    bool is_good = problem == std::errc() && tasks > 0;
    if (is_good && end != stop) {
      is_good = stop - end > 3 && end[0] == '(' && end[1] == 'x' && stop[-1] == ')' &&
                std::from_chars(end + 2, stop - 1, times).ptr == stop - 1 && times > 0;
    }
    TESSERA_CHECK(is_good, "environment variable SLURM_STEP_TASKS_PER_NODE='", *text,
                  "' must be a list like 4 or 2(x3),1");
    before += times;
    if (*node < before) return tasks;
  }
  return std::nullopt;
}

// Slurm also sets SLURM_PROCID=0 in batch scripts, which start nothing; only srun creates a step.
std::optional<Claim> slurm_claim(const EnvironmentMap& environment) {
  const bool is_step = find(environment, "SLURM_STEP_ID") != nullptr || find(environment, "SLURM_STEPID") != nullptr;
  if (find(environment, "SLURM_PROCID") == nullptr || !is_step) return std::nullopt;
  const bool has_step_size = find(environment, "SLURM_STEP_NUM_TASKS") != nullptr;
  Claim slurm = claim(environment, {"Slurm", "SLURM_PROCID", has_step_size ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                                    "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"});
  if (const std::optional<int> tasks = slurm_local_size(environment)) {
    slurm.local_size = tasks;
    slurm.local_size_name = "SLURM_STEP_TASKS_PER_NODE";
  }
  return slurm;
}

// Returns the claims of all launchers that set variables, innermost first.
std::vector<Claim> claims(const EnvironmentMap& environment) {
  std::vector<Claim> all;
  const bool is_torchrun = find(environment, "TORCHELASTIC_RUN_ID") != nullptr;
  const bool is_ours = find(environment, "TESSERA_STORE") != nullptr && !is_torchrun;
  all.push_back(claim(environment, {is_ours       ? "tessera run"
                                    : is_torchrun ? "torchrun"
                                                  : "the environment",
                                    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}));
  all.push_back(claim(environment, {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}));
  all.push_back(claim(environment, {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}));
  if (const std::optional<Claim> slurm = slurm_claim(environment)) all.push_back(*slurm);
  all.push_back(claim(environment, {"PMIx", "PMIX_RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}));
  // WORLD_SIZE alone, next to another launcher's rank, is the size for a launcher that does not set one.
  std::erase_if(all, [](const Claim& each) { return !each.rank; });
  return all;
}

void check_rank_in(const Claim& place) {
  TESSERA_CHECK(place.size.has_value(), place.rank_name, "=", *place.rank, " is set, but not the number of ranks; set ",
                place.size_name, ", or start the program with tessera run, mpirun or srun");
  TESSERA_CHECK_AS(MismatchError, *place.rank < *place.size, place.rank_name, "=", *place.rank, " contradicts ",
                   place.size_name, "=", *place.size, "; ranks must be in [0, ", *place.size - 1, "]");
}

// A user who exports RANK for all tasks of a job gives all of them the same rank. Two launchers of equal size that
// disagree indicate that. If the sizes differ, one launcher was started inside the other.
void check_agreement(const std::vector<Claim>& all, bool is_ours) {
  if (is_ours) return;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const bool is_same = !all[i].size || all[i].size != all[0].size || all[i].rank == all[0].rank;
    TESSERA_CHECK_AS(MismatchError, is_same, all[0].rank_name, "=", *all[0].rank, " contradicts ", all[i].rank_name,
                     "=", *all[i].rank, " in a world of ", *all[0].size, "; unset the one that is wrong");
  }
}

bool is_loopback(std::string_view host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

void fill_local(Claim& place, const EnvironmentMap& environment) {
  if (!place.local_rank && !place.local_size) {
    const std::string* host = find(environment, "MASTER_ADDR");
    const bool is_one_machine = *place.size == 1 || host == nullptr || is_loopback(*host);
    TESSERA_CHECK(is_one_machine, "MASTER_ADDR=", host != nullptr ? *host : "",
                  " is another machine, so the local rank on this machine must be known; set ", place.local_rank_name,
                  " and ", place.local_size_name);
    place.local_rank = place.rank;
    place.local_size = place.size;
  }
  TESSERA_CHECK(place.local_rank.has_value(), place.local_size_name, "=", place.local_size.value_or(0),
                " is set, but not ", place.local_rank_name, "; set both or neither");
  TESSERA_CHECK(place.local_size.has_value(), place.local_rank_name, "=", *place.local_rank, " is set, but not ",
                place.local_size_name, "; set both or neither");
  TESSERA_CHECK_AS(MismatchError, *place.local_rank < *place.local_size, place.local_rank_name, "=", *place.local_rank,
                   " contradicts ", place.local_size_name, "=", *place.local_size, "; local ranks must be in [0, ",
                   *place.local_size - 1, "]");
  TESSERA_CHECK_AS(MismatchError, *place.local_size <= *place.size, place.local_size_name, "=", *place.local_size,
                   " contradicts ", place.size_name, "=", *place.size,
                   "; a machine cannot have more ranks than the world");
}

std::string tcp_address(std::string_view host, int port) {
  const bool has_colon = host.find(':') != std::string_view::npos;
  return tessera::detail::concat("tcp://", has_colon ? "[" : "", host, has_colon ? "]" : "", ":", port);
}

// Returns a port that all ranks of a job compute equally and that other jobs most likely do not use; below the
// ephemeral range of the kernel.
int port_of_job(std::string_view job) {
  std::uint32_t hash = 2166136261U;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return 15000 + static_cast<int>(hash % 17000U);
}

// "node[07-12,20],other" -> "node07"
std::string first_host(std::string_view list) {
  const std::size_t bracket = list.find('[');
  const std::size_t comma = list.find(',');
  if (bracket == std::string_view::npos || comma < bracket) return std::string(list.substr(0, comma));
  const std::size_t end = list.find_first_of("-,]", bracket);
  if (end == std::string_view::npos) return {};
  return std::string(list.substr(0, bracket)) + std::string(list.substr(bracket + 1, end - bracket - 1));
}

// The number of the job determines the store address if the launcher sets none. It is also part of the secret, so that
// two jobs of one user with the same port are detected.
bool fill_from_job(const Claim& place, const EnvironmentMap& environment, LaunchEnvironment& into) {
  const auto text = [&](const char* name) {
    const std::string* found = find(environment, name);
    return found != nullptr ? *found : std::string();
  };
  std::string host;
  std::string job;
  if (place.launcher == "Slurm") {
    const std::string nodes =
        text("SLURM_STEP_NODELIST").empty() ? text("SLURM_JOB_NODELIST") : text("SLURM_STEP_NODELIST");
    host = *place.local_size == *place.size ? "127.0.0.1" : first_host(nodes);
    const std::string step = text("SLURM_STEP_ID").empty() ? text("SLURM_STEPID") : text("SLURM_STEP_ID");
    if (!text("SLURM_JOB_ID").empty()) job = "slurm " + text("SLURM_JOB_ID") + "." + step;
  } else if (place.launcher == "Open MPI" && *place.local_size == *place.size) {
    host = "127.0.0.1";
    const std::string name = text("PMIX_NAMESPACE").empty() ? text("OMPI_MCA_ess_base_jobid") : text("PMIX_NAMESPACE");
    if (!name.empty()) job = "ompi " + name;
  }
  if (host.empty() || job.empty()) return false;
  into.store = tcp_address(host, port_of_job(job));
  into.is_rank_hosted = true;
  into.hosts_store = *place.rank == 0;
  into.job = job;
  return true;
}

void fill_store(const Claim& place, const EnvironmentMap& environment, LaunchEnvironment& into) {
  if (const std::string* secret = find(environment, "TESSERA_STORE_SECRET")) into.secret = *secret;
  const std::string* insecure = find(environment, "TESSERA_STORE_INSECURE");
  into.is_insecure = insecure != nullptr && *insecure == "1";
  if (const std::string* store = find(environment, "TESSERA_STORE")) {
    (void)parse_store_address(*store);
    into.store = *store;
    return;
  }
  const std::string* host = find(environment, "MASTER_ADDR");
  const std::optional<int> port = number(environment, "MASTER_PORT", 1);
  if (host == nullptr && !port && (*place.size == 1 || fill_from_job(place, environment, into))) return;
  TESSERA_CHECK(host != nullptr && port, place.launcher, " started ", *place.size, " ranks, but ",
                host == nullptr ? (port ? "MASTER_ADDR is" : "MASTER_ADDR and MASTER_PORT are") : "MASTER_PORT is",
                " not set, so they cannot find each other; set both (mpirun -x MASTER_ADDR=first-host -x "
                "MASTER_PORT=29500), or TESSERA_STORE");
  TESSERA_CHECK(*port <= 65535, "environment variable MASTER_PORT='", *port, "' must be a port in [1, 65535]");
  // The agent of torchrun hosts its own store at MASTER_PORT, so ours uses the next port.
  const bool is_torchrun = place.launcher == "torchrun";
  const bool is_beside = is_torchrun && *port < 65535;
  into.store = tcp_address(*host, is_beside ? *port + 1 : *port);
  if (is_torchrun) into.job = "torchrun " + *find(environment, "TORCHELASTIC_RUN_ID");
  into.is_rank_hosted = true;
  into.hosts_store = *place.rank == 0;
}

}  // namespace

LaunchEnvironment read_launch_environment(const EnvironmentMap& environment) {
  LaunchEnvironment read;
  if (const std::string* run_dir = find(environment, "TESSERA_RUN_DIR")) read.place.run_dir = *run_dir;
  std::vector<Claim> all = claims(environment);
  if (all.empty()) {
    const std::string* size = find(environment, "WORLD_SIZE");
    TESSERA_CHECK(size == nullptr || *size == "1", "WORLD_SIZE=", size != nullptr ? *size : "",
                  " is set, but not RANK; set both, or start the program with tessera run, mpirun or srun");
    return read;
  }
  check_rank_in(all.front());
  check_agreement(all, all.front().launcher == "tessera run");
  Claim& place = all.front();
  fill_local(place, environment);
  read.launcher = place.launcher;
  read.place.rank = Rank{*place.rank};
  read.place.world_size = *place.size;
  read.place.local_rank = *place.local_rank;
  read.place.local_world_size = *place.local_size;
  fill_store(place, environment, read);
  return read;
}

EnvironmentMap process_environment() {
  EnvironmentMap environment;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view setting(*at);
    const std::size_t equals = setting.find('=');
    if (equals != std::string_view::npos) environment.emplace(setting.substr(0, equals), setting.substr(equals + 1));
  }
  // Tessera's own variables are read through their getters, which report misspelled names.
  environment["TESSERA_RUN_DIR"] = env::run_dir();
  environment["TESSERA_STORE"] = env::store();
  environment["TESSERA_STORE_SECRET"] = env::store_secret();
  environment["TESSERA_STORE_INSECURE"] = env::store_insecure() ? "1" : "";
  return environment;
}

LaunchEnvironment read_launch_environment() { return read_launch_environment(process_environment()); }

}  // namespace tessera::comm
