// All headers that a program needs to use Tessera, and the short names:
//
//   using namespace tessera;
//   Tensor x = randn({4, 3});
//   Tensor y = matmul(x, w) * 2 + 1;
//
// Operators, gradients and sharded tensors are in namespace tessera itself. Other parts keep the namespace of their
// layer, such as memory:: or train::. Tools that read the records of a run (tessera/analysis) and the watchdog
// (tessera/watch) have their own headers.
#pragma once

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/checkpoint.h"
#include "tessera/autograd/function.h"
#include "tessera/autograd/hooks.h"
#include "tessera/autograd/value_and_grad.h"
#include "tessera/base/dtype.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/ids.h"
#include "tessera/base/log.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/base/shape.h"
#include "tessera/base/version.h"
#include "tessera/comm/operation.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/reduction.h"
#include "tessera/comm/smaller_world.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/symmetric.h"
#include "tessera/comm/traffic.h"
#include "tessera/comm/work.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/event.h"
#include "tessera/device/graph.h"
#include "tessera/device/memory.h"
#include "tessera/device/stream.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/layout.h"
#include "tessera/layout/mesh.h"
#include "tessera/layout/planner.h"
#include "tessera/layout/propagate.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/label.h"
#include "tessera/memory/oom_report.h"
#include "tessera/memory/pool.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/llama.h"
#include "tessera/nn/checkpointing.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/generation.h"
#include "tessera/nn/hugging_face.h"
#include "tessera/nn/kv_cache.h"
#include "tessera/nn/language_model.h"
#include "tessera/nn/layer.h"
#include "tessera/nn/layers/attention.h"
#include "tessera/nn/layers/dropout.h"
#include "tessera/nn/layers/embedding.h"
#include "tessera/nn/layers/linear.h"
#include "tessera/nn/layers/mlp.h"
#include "tessera/nn/layers/norm.h"
#include "tessera/nn/lora.h"
#include "tessera/nn/meta.h"
#include "tessera/nn/module.h"
#include "tessera/nn/module_list.h"
#include "tessera/nn/optim/adamw.h"
#include "tessera/nn/optim/lion.h"
#include "tessera/nn/optim/muon.h"
#include "tessera/nn/optim/optimizer.h"
#include "tessera/nn/optim/schedule.h"
#include "tessera/nn/optim/sgd.h"
#include "tessera/nn/packing.h"
#include "tessera/nn/sampling.h"
#include "tessera/nn/sharding_table.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/dropout.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/paged_attention.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/complex.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/pointwise/promote.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/update/update.h"
#include "tessera/shard/calibrate.h"
#include "tessera/shard/collectives.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/gradients.h"
#include "tessera/shard/groups.h"
#include "tessera/shard/local_map.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/trace.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/call_observer.h"
#include "tessera/tensor/cooperation.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/dlpack.h"
#include "tessera/tensor/methods.h"
#include "tessera/tensor/op_def.h"
#include "tessera/tensor/operators.h"
#include "tessera/tensor/print.h"
#include "tessera/tensor/rearrangement.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/tensor/scalar.h"
#include "tessera/tensor/storage.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/bad_step.h"
#include "tessera/train/chat.h"
#include "tessera/train/chat_template.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/hugging_face.h"
#include "tessera/train/config.h"
#include "tessera/train/data/samples.h"
#include "tessera/train/data/text_files.h"
#include "tessera/train/data/token_file.h"
#include "tessera/train/data/tokenizer.h"
#include "tessera/train/evaluation.h"
#include "tessera/train/generated_text.h"
#include "tessera/train/merge_adapters.h"
#include "tessera/train/plan.h"
#include "tessera/train/predict.h"
#include "tessera/train/run.h"
#include "tessera/train/saved_model.h"
#include "tessera/train/summary.h"
#include "tessera/train/task.h"
#include "tessera/train/trainer.h"

namespace tessera {

// NOLINTBEGIN(misc-unused-using-decls, google-build-using-namespace): names for users
using namespace ops;       // randn, matmul, sum, ...
using namespace autograd;  // NoGrad, backward, value_and_grad, ...
using enum DType;          // kF32, kBF16, ...

using comm::ProcessGroup;
using comm::SymmetricBuffer;
using comm::SymmetricPool;
using comm::Work;
using comm::world;
using layout::Layout;
using layout::Mesh;
using layout::Partial;
using layout::Placement;
using layout::Replicate;
using layout::Shard;
using probe::Annotation;
using shard::AutoRedistribute;
using shard::DataOn;
using shard::distribute;
using shard::ForbidCommunication;
using shard::from_local;
using shard::local_map;
using shard::redistribute;
using shard::reduce_gradients;

using ops::gather;    // elements by index
using shard::gather;  // the global tensor on every rank
// NOLINTEND(misc-unused-using-decls, google-build-using-namespace)

}  // namespace tessera
