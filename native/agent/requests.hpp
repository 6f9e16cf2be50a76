// What Python asks of other agents without waiting for it. Each request ends as exactly one event
// that bears its ticket: what it brought, or Failed, also when the agent stops.
// Thread-safe, never blocks: the work is done in lanes of the pool. Events come in any order.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "agent/operations.hpp"
#include "agent/probe_responder.hpp"
#include "rpc/connection_pool.hpp"
#include "rpc/events.hpp"
#include "rpc/incidents.hpp"
#include "rpc/pool.hpp"

namespace holdfast {

class Requests {
  public:
    Requests(Operations& operations, ConnectionPool& peers, const CurrentPlacement& placement,
             Events& events, Incidents& incidents, Pool& pool)
        : operations_(operations),
          peers_(peers),
          placement_(placement),
          events_(events),
          incidents_(incidents),
          pool_(pool) {}

    // Straight, or with `via` through the agent there. `member` is who must answer; 0: anybody.
    void probe(std::uint64_t ticket, const std::string& address, const std::string& via,
               std::string news, std::uint64_t member, Duration deadline);
    void ask(std::uint64_t ticket, std::string address, const CallMessage& message,
             std::string body, Duration deadline);
    void pull(std::uint64_t ticket, Pull wanted, Duration deadline);

  private:
    class Pending;
    template <typename Work>
    void start(std::size_t lane, std::uint64_t ticket, Work work);

    Operations& operations_;
    ConnectionPool& peers_;
    const CurrentPlacement& placement_;
    Events& events_;
    Incidents& incidents_;
    Pool& pool_;
    std::array<std::atomic<std::size_t>, lane::kCount> pending_{};  // by lane
};

}  // namespace holdfast
