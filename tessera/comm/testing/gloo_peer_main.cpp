// Repeats Gloo's all_reduce over TCP on request (peer_loop.h):
//
//   comm_gloo_peer FOLDER all_reduce BYTES RANK SIZE
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tessera/comm/testing/peer_loop.h"

int main(int argc, char** argv) {
  if (argc != 6 || std::string(argv[2]) != "all_reduce") {
    std::fprintf(stderr, "usage: %s FOLDER all_reduce BYTES RANK SIZE\n", argv[0]);
    return 2;
  }
  const std::string folder = argv[1];
  const int rank = std::stoi(argv[4]);
  const auto count = static_cast<std::size_t>(std::stoll(argv[3]) / 4);
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, std::stoi(argv[5]));
  context->connectFullMesh(store, device);
  std::vector<float> in(count);
  std::vector<float> out(count);
  const auto reduce = [&] {
    gloo::AllreduceOptions options(context);
    options.setInput(in.data(), count);
    options.setOutput(out.data(), count);
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
  const auto meet = [&] {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  };
  tessera::comm::obey_orders(folder, rank, meet, reduce);
  return 0;
}
