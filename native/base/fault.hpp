// Fault points: places where this process kills or stops itself when a drill has asked for it, so
// that every stage of an operation can be interrupted on purpose.
//
// One table for the process, for it is the process that dies. Thread-safe; with nothing armed a
// point costs one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace holdfast {

enum class Stage : std::uint8_t {
    Put,      // all bytes of an object are here and not committed
    Chain,    // about to pass a piece of an object on to the next owner
    Get,      // about to send a piece of an object, after its head
    Pull,     // a piece of a copy has come from another agent and is not stored
    Restore,  // about to fetch a copy that was lost
    Trim,     // about to remove a copy that its owners have confirmed
    Drop,     // a drop is remembered and its object not yet removed
    Fill,     // a piece of a file has come from the shared file system and is not stored
    Fetch,    // a piece of a file has come from its owner, for a program of this node
    Evict,    // a copy has left the index and its file is not yet removed
    Hand,     // files for a program are made and not yet handed to it
    Seal,     // nobody can write an object any more; it is neither passed on nor committed
};
constexpr std::size_t kStages = 12;

namespace fault {

extern std::atomic<int> armed;  // how many stages wait for a fault
void pass(Stage stage);

Result<Stage> stage_named(std::string_view name);
// Kills ("kill") or stops ("stop") this process at pass number `after` of a stage, counted from
// now; 1 is the next one. Takes the place of what was armed there; "nothing" only disarms.
Status arm(std::string_view stage, std::string_view action, std::uint64_t after);

}  // namespace fault

inline void fault_point(Stage stage) {
    if (fault::armed.load(std::memory_order_relaxed) != 0) fault::pass(stage);
}

}  // namespace holdfast
