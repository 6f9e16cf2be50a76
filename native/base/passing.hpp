// Descriptors that go along with a message on a Unix socket.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <span>
#include <vector>

#include "base/fd.hpp"

namespace holdfast {

// Room for them, in a message that is sent or received; it must live as long as that.
class Passing {
  public:
    static constexpr std::size_t kMost = 64;  // in one message

    // To be sent along: at least one.
    void attach(msghdr& message, std::span<const Fd> descriptors) {
        int numbers[kMost];
        std::size_t count = 0;
        for (auto& descriptor : descriptors) numbers[count++] = descriptor.get();
        attach(message, numbers, count);
    }
    void attach(msghdr& message, const int* descriptors, std::size_t count) {
        make_room(message);
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        std::memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
    }
    // Before receiving.
    void make_room(msghdr& message) {
        message.msg_control = control_;
        message.msg_controllen = sizeof control_;
    }
    // What came along; nothing, perhaps, if there are too few free numbers for all of it.
    static std::vector<Fd> take(msghdr& message) {
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
        std::vector<Fd> descriptors((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (std::size_t i = 0; i < descriptors.size(); ++i) {
            int number;
            std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
            descriptors[i].reset(number);
        }
        if ((message.msg_flags & MSG_CTRUNC) != 0) descriptors.clear();
        return descriptors;
    }

  private:
    alignas(cmsghdr) char control_[CMSG_SPACE(kMost * sizeof(int))] = {};
};

}  // namespace holdfast
