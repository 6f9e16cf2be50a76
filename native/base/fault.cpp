#include "base/fault.hpp"

#include <array>
#include <csignal>
#include <string>

#include "base/mutex.hpp"

namespace holdfast::fault {

std::atomic<int> armed{0};

namespace {

constexpr std::array<std::string_view, kStages> kNames = {"put",     "chain", "get",  "pull",
                                                          "restore", "trim",  "drop", "fill",
                                                          "fetch",   "evict", "hand", "seal"};

struct Fault {
    int signal = 0;
    std::uint64_t left = 0;  // passes until it goes off; 0: not armed
};

Mutex mutex;
std::array<Fault, kStages> faults;

}  // namespace

void pass(Stage stage) {
    int signal = 0;
    {
        Lock lock(mutex);
        Fault& fault = faults[static_cast<std::size_t>(stage)];
        if (fault.left == 0 || --fault.left > 0) return;
        --armed;
        signal = fault.signal;
    }
    // To this thread, not to the process: it goes no further, whoever else runs a little longer.
    std::raise(signal);
}

Result<Stage> stage_named(std::string_view name) {
    for (std::size_t i = 0; i < kStages; ++i)
        if (kNames[i] == name) return static_cast<Stage>(i);
    std::string all;
    for (auto known : kNames) all.append(all.empty() ? "" : ", ").append(known);
    return Status(Code::BadInput,
                  "there is no stage '" + std::string(name) + "'; the stages are " + all);
}

Status arm(std::string_view stage, std::string_view action, std::uint64_t after) {
    auto found = stage_named(stage);
    if (!found.ok()) return found.take_status();
    int signal = action == "kill" ? SIGKILL : action == "stop" ? SIGSTOP : 0;
    if (signal == 0 && action != "nothing")
        return Status(Code::BadInput, "there is no action '" + std::string(action) +
                                          "'; the actions are kill, stop and nothing");
    if (signal != 0 && after == 0)
        return Status(Code::BadInput, "a fault strikes at pass 1 or later");
    Lock lock(mutex);
    Fault& fault = faults[static_cast<std::size_t>(*found)];
    armed += (signal != 0) - (fault.left != 0);
    fault = {signal, signal == 0 ? 0 : after};
    return {};
}

}  // namespace holdfast::fault
