# Shared by the commands in scripts/: required system packages, and stages with their times. Sourced, not run.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=$(nproc)

# Debian package and how to detect it: a command, a header that the compiler finds, or a file. The only list of
# packages.
packages_build="
g++                 command c++
cmake               command cmake
ninja-build         command ninja
ccache              command ccache
mold                command mold
git                 command git
python3             command python3
libfmt-dev          header fmt/format.h
libspdlog-dev       header spdlog/spdlog.h
nlohmann-json3-dev  header nlohmann/json.hpp
libcli11-dev        header CLI/CLI.hpp
libgtest-dev        header gtest/gtest.h
libgmock-dev        header gmock/gmock.h
libhwy-dev          header hwy/highway.h
libdnnl-dev         header oneapi/dnnl/dnnl.h
libasio-dev         header asio.hpp
libtomlplusplus-dev header toml++/toml.h
libxxhash-dev       header xxhash.h
libsodium-dev       file /usr/lib/*/libsodium.a
libutf8proc-dev     file /usr/lib/*/libutf8proc.a
librandom123-dev    header Random123/philox.h
libopenmpi-dev      file /usr/lib/*/openmpi/include/mpi.h
openmpi-bin         command mpirun
"
# Peers that benches compare with, if available.
packages_bench="
libgloo-dev         file /usr/include/gloo/allreduce.h
libopenblas0-serial file /usr/lib/*/openblas-serial/libopenblas.so.0
"
packages_lint="
clang-format        command clang-format
clang-tidy          command clang-tidy
doxygen             command doxygen
"
# For the test that opens the report of a run in a browser; the test is skipped without one.
packages_report="
chromium            command chromium
"
packages_package="
dpkg-dev            command dpkg-shlibdeps
file                command file
"
packages_full="
clang               command clang++
"

# usage SCRIPT: prints the comment at the head of a script as its help.
usage() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$1"; }

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

is_present() {
  case $1 in
    command) command -v "$2" >/dev/null ;;
    file) compgen -G "$2" >/dev/null ;;
    header) command -v c++ >/dev/null && printf '#include <%s>\n' "$2" | c++ -std=c++20 -E -x c++ - -o /dev/null 2>/dev/null ;;
  esac
}

# missing LIST [EXCEPT]: prints the packages of the list that are not installed, without those in EXCEPT.
missing() {
  local package kind what
  while read -r package kind what; do
    [[ -z $package || " ${2:-} " == *" $package "* ]] || is_present "$kind" "$what" || printf '%s ' "$package"
  done <<<"$1"
}

apt_install() {
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || die "needs root or sudo to install: $*"
    as_root=(sudo)
  fi
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q install --no-install-recommends "$@")
  # The package lists of a fresh machine are empty or outdated; they are fetched only if the first try fails.
  "${install[@]}" 2>/dev/null || { "${as_root[@]}" apt-get -q update && "${install[@]}"; }
}

# require LIST...: installs missing packages; if that fails, names them and stops.
require() {
  local list="" absent
  for part in "$@"; do list+=$part; done
  absent=$(missing "$list")
  if [[ -n $absent ]]; then
    command -v apt-get >/dev/null || die "missing, and there is no apt-get to install it: $absent"
    say "installing $absent"
    # shellcheck disable=SC2086
    apt_install $absent || die "could not install: $absent"
    absent=$(missing "$list")
    [[ -z $absent ]] || die "still missing after installation: $absent"
  fi
  require_cmake
}

# want LIST: installs missing packages; if that fails, prints a note and continues: tests that need them are skipped.
want() {
  local absent
  absent=$(missing "$1")
  [[ -n $absent ]] || return 0
  say "installing $absent"
  # shellcheck disable=SC2086
  { command -v apt-get >/dev/null && apt_install $absent; } || say "could not install $absent: tests that need it skip"
}

require_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  [[ $(printf '3.25\n%s\n' "$version" | sort -V | head -1) == 3.25 ]] || die "cmake $version is too old; 3.25 or later is needed"
}

# configure PRESET [ARGUMENT...]: configures a build with grouped sources. Groups are formed again each time, because
# changed sources may no longer fit together. A build that a user configured differently is not changed.
configure() {
  local preset=$1
  shift
  if [[ ! -f build/$preset/build.ninja ]]; then
    cmake --preset "$preset" -DTESSERA_GROUP_SOURCES=ON "$@"
  elif grep -q '^TESSERA_GROUP_SOURCES:BOOL=ON' "build/$preset/CMakeCache.txt"; then
    cmake "build/$preset" "$@" >/dev/null
  fi
}

# Returns true if this machine has an NVIDIA GPU.
has_gpu() { [[ -e /dev/nvidiactl || -e /dev/dxg ]]; }

# demo_text DIRECTORY: copies the tracked sources and docs into DIRECTORY/training, and every tenth into
# DIRECTORY/held_out. Each file is a document.
demo_text() {
  rm -rf "$1"
  mkdir -p "$1/training" "$1/held_out"
  git ls-files -- '*.cpp' '*.h' '*.cu' '*.cuh' '*.md' '*.py' '*.cmake' '*.txt' scripts >"$1/files"
  awk 'NR % 10 != 0' "$1/files" | xargs -d '\n' cp --parents -t "$1/training"
  awk 'NR % 10 == 0' "$1/files" | xargs -d '\n' cp --parents -t "$1/held_out"
}

# demo_options TEXT: sets `demo` to the options of `tessera train` for the demo on a text of demo_text(). With a GPU, the
# ranks are threads that share it.
demo_options() {
  demo=(-n 4 --model.preset tiny --mesh.dp 2 --mesh.tp 2 --data.files "$1/training" --data.held_out "$1/held_out"
    --data.format text --train.steps 600 --train.batch 16 --schedule.warmup 20 --run.sample 400)
  if has_gpu; then
    say "this machine has a GPU: the 4 ranks are threads that share it"
    demo+=(--ranks-as threads --device cuda)
  fi
}

stage_names=()
stage_seconds=()
stage_failed=()
stage_status=0

# stage NAME COMMAND...: runs the command, records its time and whether it failed, and continues. Must not be called in
# a condition or before
#
# : bash would then continue a function after its first failing command.
stage() {
  local name=$1 start=$SECONDS
  shift
  say "$name"
  set +e
  (set -e; "$@")
  stage_status=$?
  set -e
  stage_names+=("$name")
  stage_seconds+=($((SECONDS - start)))
  if ((stage_status != 0)); then stage_failed+=("$name"); fi
}

print_stages() {
  local i
  printf '\n%-34s %8s\n' stage seconds
  for i in "${!stage_names[@]}"; do printf '%-34s %8d\n' "${stage_names[i]}" "${stage_seconds[i]}"; done
  printf '%-34s %8d\n' "so far" "$SECONDS"
}

# measure_peers PROGRAM OPTION...: runs the peers in bench/peers for a suite, unless options narrow the bench. A suite
# whose peers have several modes and separate bounds has a folder there.
measure_peers() {
  local suite=${1##*/bench_} folder
  (($# == 1)) || return 0
  folder=bench/peers/$suite
  [[ $suite != nn ]] || folder=bench/peers/host_train  # PyTorch is the peer of both
  if [[ -d $folder ]]; then
    python3 "$folder/compare.py" "$1"
  elif compgen -G "bench/peers/*_$suite.py" >/dev/null; then
    python3 bench/peers/compare.py "$suite" "$1"
  fi
}
