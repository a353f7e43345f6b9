// Cases of what makes tensors from nothing.
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

const OpCase kFull{
    {.op = "full", .samples = {}, .why_no_reference = "takes no tensor that says where: ops_create_test"}};
const OpCase kArange{
    {.op = "arange", .samples = {}, .why_no_reference = "takes no tensor that says where: ops_create_test"}};
const OpCase kEye{{.op = "eye", .samples = {}, .why_no_reference = "takes no tensor that says where: ops_create_test"}};

const char* const kRandom = "random: ops_random_test";
const OpCase kRand{{.op = "rand", .samples = {}, .why_no_reference = kRandom}};
const OpCase kRandn{{.op = "randn", .samples = {}, .why_no_reference = kRandom}};
const OpCase kTruncNormal{{.op = "trunc_normal", .samples = {}, .why_no_reference = kRandom}};
const OpCase kBernoulli{{.op = "bernoulli", .samples = {}, .why_no_reference = kRandom}};
const OpCase kRandint{{.op = "randint", .samples = {}, .why_no_reference = kRandom}};
const OpCase kRandperm{{.op = "randperm", .samples = {}, .why_no_reference = kRandom}};

}  // namespace
}  // namespace tessera::ops::testing
