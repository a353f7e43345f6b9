// A store in the memory of this process, for ranks that are threads.
#pragma once

#include <memory>

#include "tessera/base/export.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm {

/// A store in memory. Share it by pointer.
class TESSERA_API MemoryStore final : public Store {
 public:
  /// Creates an empty store.
  MemoryStore();
  ~MemoryStore() override;
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  void set(std::string_view key, std::string_view value) override;
  std::optional<std::string> find(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t by) override;
  std::optional<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                         std::string_view desired) override;
  void wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) override;
  bool remove(std::string_view key) override;
  std::vector<std::string> keys(std::string_view prefix) override;
  [[nodiscard]] std::string text() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::comm
