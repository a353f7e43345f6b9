// The main function of every bench program. The build names the suite and where its results go by default, relative to
// the current directory, since programs may run on another machine than they were built on (see tessera_suite in
// cmake/TesseraPrograms.cmake). --json names another file.
#include "tessera/base/testing/bench.h"

int main(int argc, char** argv) {
  return tessera::bench::run(TESSERA_BENCH_SUITE, TESSERA_BENCH_RESULTS "/" TESSERA_BENCH_SUITE ".json", argc, argv);
}
