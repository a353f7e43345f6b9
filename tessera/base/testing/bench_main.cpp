// The main function of every bench program. The build sets the suite and the default path of its results, relative to
// the current directory, since programs may run on another machine than the build (see tessera_suite in
// cmake/TesseraPrograms.cmake). --json selects another file.
#include "tessera/base/testing/bench.h"

int main(int argc, char** argv) {
  return tessera::bench::run(TESSERA_BENCH_SUITE, TESSERA_BENCH_RESULTS "/" TESSERA_BENCH_SUITE ".json", argc, argv);
}
