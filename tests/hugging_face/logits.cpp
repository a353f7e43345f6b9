// logits MODEL IN OUT: for tokens [batch, sequence] of the safetensors file IN, writes to OUT the "logits" of MODEL,
// and "tokens" with 64 more tokens, each the one with the largest logit. MODEL is an imported checkpoint or the
// directory of a model of transformers.
#include <array>
#include <cstdio>

#include "tessera/tessera.h"

namespace {

using namespace tessera;

constexpr int kNewTokens = 64;

std::shared_ptr<nn::LanguageModel> load(const char* path) {
  const nn::ModelConfig config = train::is_hugging_face(path)
                                     ? train::hugging_face_config(path)
                                     : train::checkpoint_model_config(train::open_checkpoint(path));
  auto model = nn::model_family(config.family).create(config);
  train::CheckpointState state;
  for (const nn::NamedParameter& each : model->module().named_parameters())
    state.tensors.emplace_back("parameters/" + each.path, each.parameter.leaf().detach());
  train::load_weights(path, state);
  model->module().eval();
  return model;
}

void run(const char* checkpoint, const char* in, const char* out) {
  const autograd::NoGrad no_grad;
  const auto model = load(checkpoint);
  const auto logits_of = [&](const Tensor& tokens) { return model->head(model->hidden(tokens, nullptr)); };
  Tensor tokens = ops::cast(tensor::SafetensorsFile(in).map("tokens"), DType::kI64);
  const Tensor logits = logits_of(tokens);
  for (int i = 0; i < kNewTokens; ++i) {
    const Tensor all = logits_of(tokens);
    const Tensor last = all.slice(1, all.size(1) - 1, all.size(1)).contiguous();
    tokens = ops::cat(std::array{tokens, ops::argmax(last, 2)}, 1);
  }
  tensor::write_safetensors(out, {{"logits", logits.contiguous()}, {"tokens", tokens.contiguous()}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: logits MODEL IN OUT\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "logits: %s\n", error.what());
    return 1;
  }
}
