// Whom to ask for files, and how long to wait: what agents and programs remember of answers.
//
// A connection that fails counts at once: the member is avoided for a while. A missed deadline
// is a strike, and `strikes` consecutive ones do the same. Afterwards it is asked again, and one
// more failure is enough. Not thread-safe; pure, the clock is an argument.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace holdfast {

struct TrustSettings {
    std::uint32_t strikes = 3;  // missed deadlines in a row after which a member is avoided
    Duration avoid = std::chrono::seconds(5);                 // how long
    Duration file_deadline = std::chrono::milliseconds(500);  // least wait for the first byte
    Duration deadline = std::chrono::seconds(2);              // and the longest
};

// Failures of a member, as against what a member that lives may answer.
bool is_failure(const Status& status);

class Trust {
  public:
    Trust() = default;
    explicit Trust(const TrustSettings& settings) : settings_(settings) {}
    void set(const TrustSettings& settings) { settings_ = settings; }

    // Whether to ask a member now; if not, it failed and is avoided.
    bool trusts(std::uint64_t member, TimePoint now) const;
    // How long its first byte may take: four times the slowest seen, within the settings.
    Duration deadline(std::uint64_t member) const;

    void answered(std::uint64_t member, Duration first_byte);
    // `late`: it missed its deadline; else its connection failed.
    void failed(std::uint64_t member, bool late, TimePoint now);

  private:
    struct Record {
        Duration slowest{};
        std::uint32_t strikes = 0;
        TimePoint left_alone_until{};
    };

    TrustSettings settings_;
    std::unordered_map<std::uint64_t, Record> members_;
};

}  // namespace holdfast
