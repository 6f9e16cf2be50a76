// A descriptor that goes along with a message on a Unix socket.
#pragma once

#include <sys/socket.h>

#include <cstring>

#include "base/fd.hpp"

namespace holdfast {

// Room for one, in a message that is sent or received; it must live as long as that.
class Passing {
  public:
    // To be sent along.
    void attach(msghdr& message, int descriptor) {
        make_room(message);
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof descriptor);
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    // Before receiving.
    void make_room(msghdr& message) {
        message.msg_control = control_;
        message.msg_controllen = sizeof control_;
    }
    // What came along; nothing, perhaps.
    static Fd take(msghdr& message) {
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
        int descriptor;
        std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
        return Fd(descriptor);
    }

  private:
    alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
};

}  // namespace holdfast
