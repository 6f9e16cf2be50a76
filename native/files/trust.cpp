#include "files/trust.hpp"

#include <algorithm>

namespace holdfast {

bool is_failure(const Status& status) {
    return status.code() == Code::Unavailable || status.code() == Code::DeadlineMissed ||
           status.code() == Code::Refused;
}

bool Trust::trusts(std::uint64_t member, TimePoint now) const {
    auto found = members_.find(member);
    return found == members_.end() || found->second.left_alone_until <= now;
}

Duration Trust::deadline(std::uint64_t member) const {
    auto found = members_.find(member);
    Duration wait = settings_.file_deadline;
    if (found != members_.end()) wait = std::max(wait, 4 * found->second.slowest);
    return std::min(wait, settings_.deadline);
}

void Trust::answered(std::uint64_t member, Duration first_byte) {
    Record& record = members_[member];
    record.slowest = std::max(record.slowest, first_byte);
    record.strikes = 0;
    // Perhaps to a request that was sent before another failed; it lives all the same.
    record.left_alone_until = {};
}

void Trust::failed(std::uint64_t member, bool late, TimePoint now) {
    Record& record = members_[member];
    if (late)
        ++record.strikes;
    else
        record.strikes = std::max(record.strikes, settings_.strikes);
    if (record.strikes >= settings_.strikes) record.left_alone_until = now + settings_.avoid;
}

}  // namespace holdfast
