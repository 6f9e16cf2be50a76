#include "rpc/admission.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <string>

namespace holdfast {

Admission::Admission(std::size_t most)
    : most_(most),
      most_of_a_kind_(most - most / 8),
      most_strangers_(std::max<std::size_t>(most / 4, 1)) {}

bool Admission::full(bool local) const {
    return open_[local].size() >= most_of_a_kind_ || open_[0].size() + open_[1].size() >= most_;
}

Result<bool> Admission::enter(int fd, bool local) {
    Lock lock(mutex_);
    if (ended_) return Status(Code::Unavailable, "this agent is stopping");
    bool crowded = full(local) || (!local && strangers_.size() >= most_strangers_);
    bool cut = crowded && cut_oldest_stranger();
    if (full(local))
        return Status(Code::Full, "there are already " + std::to_string(open_[local].size()) +
                                      " connections of its kind");
    open_[local].insert(fd);
    if (!local) strangers_.push_back(fd);
    return cut;
}

// It has left as far as we are concerned; its loop notices and closes it.
bool Admission::cut_oldest_stranger() {
    if (strangers_.empty()) return false;
    int fd = strangers_.front();
    strangers_.pop_front();
    open_[false].erase(fd);
    ::shutdown(fd, SHUT_RDWR);
    return true;
}

void Admission::prove(int fd) {
    Lock lock(mutex_);
    std::erase(strangers_, fd);
}

void Admission::leave(int fd) {
    Lock lock(mutex_);
    for (auto& kind : open_) kind.erase(fd);
    std::erase(strangers_, fd);
}

void Admission::end() {
    Lock lock(mutex_);
    ended_ = true;
    for (auto& kind : open_)
        for (int fd : kind) ::shutdown(fd, SHUT_RDWR);
}

}  // namespace holdfast
