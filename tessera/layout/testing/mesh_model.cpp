#include "tessera/layout/testing/mesh_model.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::layout::testing {
namespace {

std::size_t index_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

void sort_places(MeshModel& model) {
  std::sort(model.places.begin(), model.places.end(),
            [](const auto& a, const auto& b) { return a.coordinates < b.coordinates; });
}

// Returns some of the names, at least one, in random order.
std::vector<std::string> some_of(Random& random, std::vector<std::string> names) {
  std::shuffle(names.begin(), names.end(), random);
  names.resize(static_cast<std::size_t>(pick(random, 1, static_cast<std::int64_t>(names.size()))));
  return names;
}

void change(Random& random, ModelledMesh& made, const std::string& name) {
  MeshModel& model = made.model;
  switch (random() % 4) {
    case 0: {
      const auto kept = some_of(random, model.names);
      const auto& around = model.places[random() % model.places.size()];
      made.mesh = made.mesh.slice(kept, Rank(static_cast<std::int32_t>(around.rank)));
      model = model.slice(kept, around.rank);
      break;
    }
    case 1: {
      const auto merged = some_of(random, model.names);
      made.mesh = made.mesh.flatten(merged, name);
      model = model.flatten(merged, name);
      break;
    }
    case 2: {
      const std::size_t index = random() % model.names.size();
      const std::int64_t size = model.sizes[index];
      const std::int64_t minor = pick(random, 1, size);
      if (size % minor != 0) break;
      const AxisSpec into[] = {{name, size / minor}, {name + "_minor", minor}};
      try {
        made.mesh = made.mesh.unflatten(model.names[index], into);
      } catch (const InvalidArgument&) {  // it would break the factors of a flattened axis
        break;
      }
      model = model.unflatten(index, name, name + "_minor", minor);
      break;
    }
    default: {
      if (model.names.size() < 2) break;
      const std::size_t index = random() % model.names.size();
      const std::int64_t coordinate = pick(random, 0, model.sizes[index] - 1);
      made.mesh = made.mesh.at(model.names[index], coordinate);
      std::vector<std::string> kept = model.names;
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(index));
      const auto around = std::find_if(model.places.begin(), model.places.end(),
                                       [&](const auto& place) { return place.coordinates[index] == coordinate; });
      model = model.slice(kept, around->rank);
    }
  }
}

}  // namespace

MeshModel MeshModel::row_major(std::vector<std::string> names, std::vector<std::int64_t> sizes, std::int64_t first) {
  MeshModel model{std::move(names), std::move(sizes), {{0, {}}}};
  for (const std::int64_t size : model.sizes) {
    std::vector<AxisPlace> longer;
    for (const AxisPlace& place : model.places) {
      for (std::int64_t i = 0; i < size; ++i) {
        longer.push_back(place);
        longer.back().coordinates.push_back(i);
      }
    }
    model.places = std::move(longer);
  }
  for (AxisPlace& place : model.places) place.rank = first++;
  return model;
}

MeshModel MeshModel::slice(const std::vector<std::string>& kept, std::int64_t rank) const {
  const AxisPlace& around =
      *std::find_if(places.begin(), places.end(), [&](const AxisPlace& p) { return p.rank == rank; });
  MeshModel model{kept, {}, {}};
  for (const std::string& name : kept) model.sizes.push_back(sizes[index_of(names, name)]);
  for (const AxisPlace& place : places) {
    bool is_kept = true;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool moves = index_of(kept, names[i]) < kept.size();
      is_kept = is_kept && (moves || place.coordinates[i] == around.coordinates[i]);
    }
    if (!is_kept) continue;
    AxisPlace made{place.rank, {}};
    for (const std::string& name : kept) made.coordinates.push_back(place.coordinates[index_of(names, name)]);
    model.places.push_back(std::move(made));
  }
  sort_places(model);
  return model;
}

MeshModel MeshModel::flatten(const std::vector<std::string>& merged, const std::string& name) const {
  MeshModel model;
  const std::size_t at = index_of(names, merged.front());
  const auto build = [&](const std::vector<std::int64_t>& values, std::int64_t flat, std::vector<std::int64_t>& out) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i == at) out.push_back(flat);
      if (index_of(merged, names[i]) == merged.size()) out.push_back(values[i]);
    }
  };
  std::int64_t size = 1;
  for (const std::string& each : merged) size *= sizes[index_of(names, each)];
  build(sizes, size, model.sizes);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == at) model.names.push_back(name);
    if (index_of(merged, names[i]) == merged.size()) model.names.push_back(names[i]);
  }
  for (const AxisPlace& place : places) {
    std::int64_t flat = 0;
    for (const std::string& each : merged) {
      flat = flat * sizes[index_of(names, each)] + place.coordinates[index_of(names, each)];
    }
    model.places.push_back({place.rank, {}});
    build(place.coordinates, flat, model.places.back().coordinates);
  }
  sort_places(model);
  return model;
}

MeshModel MeshModel::unflatten(std::size_t index, const std::string& major, const std::string& minor,
                               std::int64_t minor_size) const {
  MeshModel model = *this;
  const auto at = static_cast<std::ptrdiff_t>(index);
  model.names[index] = major;
  model.names.insert(model.names.begin() + at + 1, minor);
  model.sizes[index] /= minor_size;
  model.sizes.insert(model.sizes.begin() + at + 1, minor_size);
  for (AxisPlace& place : model.places) {
    const std::int64_t whole = place.coordinates[index];
    place.coordinates[index] = whole / minor_size;
    place.coordinates.insert(place.coordinates.begin() + at + 1, whole % minor_size);
  }
  return model;
}

ModelledMesh random_mesh(Random& random, std::int64_t max_ranks) {
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  std::vector<AxisSpec> axes;
  std::int64_t left = max_ranks;
  for (std::int64_t i = pick(random, 1, 4); i > 0; --i) {
    names.push_back(tessera::detail::concat('a', names.size()));
    sizes.push_back(std::min(pick(random, 1, 6), left));
    axes.push_back({names.back(), sizes.back()});
    left /= sizes.back();
  }
  const std::int64_t first = random() % 2 == 0 ? 0 : pick(random, 0, 100);
  ModelledMesh made{Mesh::create(axes, Rank(static_cast<std::int32_t>(first))),
                    MeshModel::row_major(names, sizes, first)};
  for (std::int64_t i = random() % 2 == 0 ? 0 : pick(random, 1, 3); i > 0; --i) {
    change(random, made, tessera::detail::concat('b', i));
  }
  return made;
}

}  // namespace tessera::layout::testing
