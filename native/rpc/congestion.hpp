// The congestion control that the TCP connections of this process ask for.
//
// BBR paces a connection by the bandwidth that it has seen, and one that carried small requests has
// seen little: a large body after them waits in the sender's socket although the network is idle
// (docs/explanation/architecture.md). Controls that go by loss send what the window allows.
// Thread-safe; nothing blocks.
#pragma once

#include <string>

#include "base/status.hpp"

namespace holdfast {

// For sockets made from now on: the name of a control; "system" leaves what the system has; "auto"
// does too unless that is BBR. Gives what it will be.
Result<std::string> choose_congestion_control(const std::string& wanted);

// Asks for it. On a listening socket it holds for all connections that come in there.
void set_congestion_control(int socket);

}  // namespace holdfast
