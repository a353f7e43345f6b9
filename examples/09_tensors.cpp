// Tensors: fits a straight line by gradient descent, then writes it to a file and reads it back.
#include <tessera/tessera.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace autograd = tessera::autograd;
namespace ops = tessera::ops;
namespace tensor = tessera::tensor;
using tessera::Tensor;

int main() {
  ops::manual_seed(1);
  const Tensor x = ops::rand({256, 1});
  const Tensor y = x * 3.0 + 0.5 + ops::randn({256, 1}) * 0.01;  // the parameters to find are 3 and 0.5

  const Tensor slope = ops::zeros({1, 1});
  const Tensor offset = ops::zeros({1});
  autograd::set_requires_grad(slope, true);
  autograd::set_requires_grad(offset, true);
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    const Tensor loss = ops::mean(ops::square(ops::matmul(x, slope) + offset - y));
    autograd::backward(loss);
    {
      const autograd::NoGrad frozen;  // autograd does not record the update
      for (const Tensor& parameter : {slope, offset}) {
        ops::sub_(parameter, autograd::grad(parameter) * 0.5);
        autograd::set_grad(parameter, {});
      }
    }
    if (step % 50 == 0 || step == 199) {
      last = ops::item(loss).as_double();  // the only wait of the host
      std::printf("step %3d  loss %.6f\n", step, last);
    }
  }
  std::printf("%s\n%s\n", tensor::to_string(slope).c_str(), tensor::to_string(offset).c_str());

  const std::string file = std::filesystem::temp_directory_path() / "tessera_line.safetensors";
  tensor::write_safetensors(file, {{"offset", offset}, {"slope", slope}}, {{"what", "a straight line"}});
  const bool is_same = ops::equal(tensor::SafetensorsFile(file).map("slope"), slope);
  std::filesystem::remove(file);
  std::printf("read back: %s\n", is_same ? "the same" : "something else");
  return is_same && last < 1e-3 ? 0 : 1;
}
