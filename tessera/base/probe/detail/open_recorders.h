// The open recorders of the process: closed at exit, left to the parent after a fork, and told when a thread ends.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::probe {
class Recorder;
}

namespace tessera::probe::detail {

/// Returns true in a process that was forked from one with an open recorder.
bool has_recording_parent();
/// An id never used before in this process.
std::uint64_t new_recorder_id();
/// `end` runs at exit if the recorder is still open then; `disown` in a forked child, for the file is the parent's.
/// Neither may come back here.
void add_open_recorder(std::uint64_t id, Recorder* recorder, std::function<void()> end, std::function<void()> disown);
void remove_open_recorder(std::uint64_t id);
/// Calls `use` if the recorder is open; it stays open meanwhile. False if it is not.
bool with_open_recorder(std::uint64_t id, const std::function<void(Recorder&)>& use);

/// The registry's lock around a fork (kind_registry.cpp).
void lock_kind_registry();
void unlock_kind_registry();

}  // namespace tessera::probe::detail
