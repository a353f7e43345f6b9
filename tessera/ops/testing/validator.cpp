#include "tessera/ops/testing/validator.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/ops/testing/validator_subject.h"

namespace tessera::ops::testing {
namespace {

using layout::Layout;
using layout::Mesh;
using tessera::detail::concat;

constexpr std::size_t kBatch = 32;  // combinations enqueued before a wait

// A combination with enqueued calls.
struct Trial {
  const Subject* subject = nullptr;
  const Combination* combination = nullptr;
  int style = 0;
  std::vector<Parts> inputs = {};  // kept until the work is done
  std::vector<Parts> outputs = {};
  std::string wrong = {};
};

void enqueue(Trial& trial) {
  trial.inputs = trial.subject->sharded_inputs(*trial.combination, trial.style);
  try {
    trial.outputs = call_on_ranks(trial.subject->op(), trial.inputs, trial.subject->attributes(),
                                  trial.subject->claims(*trial.combination));
  } catch (const Error& error) {
    trial.wrong = error.message();
  }
}

std::string check(const Trial& trial) {
  if (!trial.wrong.empty()) return trial.wrong;
  for (std::size_t o = 0; o < trial.outputs.size(); ++o) {
    std::string wrong;
    const auto whole = recombine(trial.outputs[o], wrong);
    if (whole)
      wrong = difference(*whole, trial.subject->outputs()[o], trial.subject->tolerance(), trial.outputs[o].layout);
    if (!wrong.empty()) return concat("output ", o, ": ", wrong);
  }
  return {};
}

bool proves_nothing(const Subject& subject) {
  return std::ranges::all_of(subject.outputs(), [](const Whole& output) {
    return std::ranges::all_of(output.values, [](double value) { return value == 0; });
  });
}

// Counts the kinds of shards of a combination.
void count_pieces(const Subject& subject, const Combination& combination, Validation& into) {
  bool is_sharded = false;
  bool has_empty = false;
  bool has_unequal = false;
  const auto look = [&](const Layout& layout, const Shape& shape) {
    if (!layout || layout.ndim() == 0 || shape.is_empty()) return;
    is_sharded = true;
    const auto& operands = local_operands(layout, shape);
    for (const auto& operand : operands) {
      has_empty |= operand.shape.is_empty();
      has_unequal |= operand.shape != operands[0].shape;
    }
  };
  for (std::size_t i = 0; i < combination.inputs.size(); ++i) look(combination.inputs[i], subject.inputs()[i].shape);
  if (combination.inputs.empty()) look(combination.outputs[0], subject.outputs()[0].shape);
  if (is_sharded) (has_empty ? into.empty : has_unequal ? into.uneven : into.even) += 1;
  into.partial += combination.is_partial() ? 1 : 0;
}

// Runs trials in batches and records errors.
class Trials {
 public:
  Trials(Validation& validation, std::size_t max_wrong) : validation_(validation), max_wrong_(max_wrong) {}

  void add(const Subject& subject, const Combination& combination, int style) {
    if (is_over()) return;
    batch_.push_back({&subject, &combination, style});
    enqueue(batch_.back());
    validation_.local_calls += combination.mesh().size();
    if (batch_.size() == kBatch) finish();
  }

  void finish() {
    try {
      wait_for_work();
    } catch (const Error&) {
      find_failing();
    }
    for (const Trial& trial : batch_) report(trial);
    batch_.clear();
  }

  [[nodiscard]] bool is_over() const { return validation_.wrong.size() >= max_wrong_; }

 private:
  // Work failed asynchronously: repeats the trials one by one to find the failing one.
  void find_failing() {
    for (Trial& trial : batch_) {
      trial.wrong.clear();
      enqueue(trial);
      try {
        wait_for_work();
      } catch (const Error& error) {
        trial.wrong = error.message();
      }
    }
  }

  void report(const Trial& trial) {
    const std::string wrong = check(trial);
    if (wrong.empty() || is_over()) return;
    std::string text = concat(trial.subject->text(), " on ", trial.combination->text(), ": ", wrong);
    if (std::ranges::find(validation_.wrong, text) == validation_.wrong.end()) validation_.wrong.push_back(text);
  }

  Validation& validation_;
  std::size_t max_wrong_;
  std::vector<Trial> batch_;
};

void validate_on(const Subject& subject, const std::optional<Subject>& negated, const Mesh& mesh,
                 const ValidatorOptions& options, Random& random, Validation& out) {
  const Combinations found = admitted_combinations(subject, mesh, options.most, random);
  out.admitted += found.admitted;
  Trials trials(out, options.max_wrong);
  const bool is_vacuous = proves_nothing(subject);
  for (const Combination& combination : found.list) {
    if (trials.is_over()) break;
    out.tried += 1;
    out.vacuous += is_vacuous ? 1 : 0;
    count_pieces(subject, combination, out);
    const int styles = combination.is_partial() ? kPartStyles : 1;
    for (int style = 0; style < styles; ++style) {
      trials.add(subject, combination, style);
      if (negated && combination.is_partial()) trials.add(*negated, combination, style);
    }
  }
  trials.finish();
}

}  // namespace

std::vector<OpSample> first_samples(const OpCaseInfo& info, const ValidatorOptions& options, Random& random) {
  std::vector<OpSample> samples = info.samples(random);
  if (samples.size() > options.samples) samples.resize(options.samples);
  return samples;
}

void Validation::add(const Validation& other) {
  wrong.insert(wrong.end(), other.wrong.begin(), other.wrong.end());
  notes.insert(notes.end(), other.notes.begin(), other.notes.end());
  admitted += other.admitted;
  tried += other.tried;
  vacuous += other.vacuous;
  even += other.even;
  uneven += other.uneven;
  empty += other.empty;
  partial += other.partial;
  moves += other.moves;
  local_calls += other.local_calls;
}

std::string Validation::text() const {
  return concat(tried, " combinations of ", admitted, " (", vacuous, " without evidence): sharded evenly ", even,
                ", unevenly ", uneven, ", with empty shards ", empty, ", partial inputs ", partial, "; ", local_calls,
                " local calls", moves > 0 ? concat(", ", moves, " inputs gathered") : std::string());
}

std::vector<Mesh> validator_meshes() {
  return {Mesh::parse("x=2"), Mesh::parse("x=3"), Mesh::parse("x=2,y=2"), Mesh::parse("x=2,y=3"),
          Mesh::parse("x=2,y=2,z=2")};
}

Validation validate(const OpCaseInfo& info, const ValidatorOptions& options) {
  Validation out;
  const tensor::Operator op = tensor::find_op(info.op);
  if (!info.samples) return out;
  Random random(options.seed);
  for (const OpSample& sample : first_samples(info, options, random)) {
    const bool is_tried = sample.inputs.empty() ? op->def.localize != nullptr : op->def.rule != nullptr;
    if (!is_tried || out.wrong.size() >= options.max_wrong) continue;
    try {
      const Subject subject(info, sample);
      const std::optional<Subject> negated = subject.negated();
      for (const Mesh& mesh : validator_meshes()) {
        if (mesh.ndim() > 1 && proves_nothing(subject)) continue;
        validate_on(subject, negated, mesh, options, random, out);
      }
    } catch (const Error& error) {
      out.wrong.push_back(
          concat(info.op, " ", sample.attributes.ref().text(), " ", sample.note, ": ", error.message()));
    }
  }
  return out;
}

}  // namespace tessera::ops::testing
