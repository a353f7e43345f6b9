// The open recorders of the process: closed at exit, left to the parent after a fork, notified when a thread ends.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::probe {
class Recorder;
}

namespace tessera::probe::detail {

/// Returns true in a process that was forked from one with an open recorder.
bool has_recording_parent();
/// Returns an id never used before in this process.
std::uint64_t new_recorder_id();
/// Registers a recorder. `end` runs at exit, with the exit code, if the recorder is still open; `disown` runs in a
/// forked child, because the file belongs to the parent. Neither may call these functions.
void add_open_recorder(std::uint64_t id, Recorder* recorder, std::function<void(int)> end,
                       std::function<void()> disown);
void remove_open_recorder(std::uint64_t id);
/// Calls `use` if the recorder is open, and keeps it open during the call. Returns false if it is not open.
bool with_open_recorder(std::uint64_t id, const std::function<void(Recorder&)>& use);

/// Lock and unlock the registry around a fork (kind_registry.cpp).
void lock_kind_registry();
void unlock_kind_registry();

}  // namespace tessera::probe::detail
