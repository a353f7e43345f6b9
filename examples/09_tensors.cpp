// Tensors: fits a straight line by gradient descent, then writes it to a file and reads it back.
#include <tessera/tessera.h>

#include <filesystem>
#include <iostream>
#include <string>

using namespace tessera;

int main() {
  manual_seed(1);
  const Tensor x = rand({256, 1});
  const Tensor y = x * 3 + 0.5 + randn({256, 1}) * 0.01;  // the parameters to find are 3 and 0.5

  const Tensor slope = zeros({1, 1}).requires_grad_();
  const Tensor offset = zeros({1}).requires_grad_();
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    const Tensor loss = (matmul(x, slope) + offset - y).square().mean();
    loss.backward();
    {
      const NoGrad no_grad;  // autograd does not record the update
      for (const Tensor& parameter : {slope, offset}) {
        parameter -= parameter.grad() * 0.5;
        parameter.zero_grad();
      }
    }
    if (step % 50 == 0 || step == 199) {
      last = loss.item<double>();  // the only wait of the host
      std::cout << "step " << step << "  loss " << last << "\n";
    }
  }
  std::cout << slope << "\n" << offset << "\n";

  const std::string file = std::filesystem::temp_directory_path() / "tessera_line.safetensors";
  tensor::write_safetensors(file, {{"offset", offset}, {"slope", slope}}, {{"what", "a straight line"}});
  const bool is_same = equal(tensor::SafetensorsFile(file).map("slope"), slope);
  std::filesystem::remove(file);
  std::cout << "read back: " << (is_same ? "the same" : "something else") << "\n";
  return is_same && last < 1e-3 ? 0 : 1;
}
