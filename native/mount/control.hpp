// The socket on which a mount is asked by programs of its user. Requests and answers are a length
// (32 bits) and fields that end with a zero each:
//
//     ping              -> "well", or "full" if no thread is free to answer the kernel, nor
//                          was since the last ping
//     status            -> NAME=NUMBER for each counter
//     refresh PATH...   -> nothing, once the kernel has forgotten them
//
// Its threads run until the process ends; what it answers with must live as long.
#pragma once

#include "base/fd.hpp"
#include "base/status.hpp"
#include "mount/mount.hpp"
#include "mount/workers.hpp"

namespace holdfast::mount {

class Control {
  public:
    Control(Mount& mount, Workers& workers) : mount_(mount), workers_(workers) {}

    // Listens at the path of the settings, if there is one.
    Status listen();

  private:
    void accept_all();
    void serve(int connection);
    std::string answer(const std::vector<std::string>& fields);

    Mount& mount_;
    Workers& workers_;
    Fd socket_;
};

}  // namespace holdfast::mount
