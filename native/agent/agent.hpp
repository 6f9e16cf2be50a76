// The native half of an agent: store, server and peers put together.
#pragma once

#include <sys/epoll.h>

#include <memory>
#include <optional>
#include <string>

#include "agent/operations.hpp"
#include "agent/requests.hpp"
#include "rpc/calls.hpp"
#include "rpc/client.hpp"
#include "rpc/events.hpp"
#include "rpc/incidents.hpp"
#include "rpc/server.hpp"
#include "store/scrub.hpp"
#include "store/store.hpp"

namespace holdfast {

struct AgentOptions {
    std::string job_key;
    std::array<TierOptions, kTiers> tiers;
    std::uint64_t scrub_rate = 0;  // bytes per second
};

class Agent {
  public:
    static Result<std::unique_ptr<Agent>> make(AgentOptions options) {
        auto store = Store::open(options.tiers);
        if (!store.ok()) return store.take_status();
        return std::unique_ptr<Agent>(new Agent(std::move(options), std::move(*store)));
    }
    ~Agent() { stop(); }

    Server& server() { return server_; }
    Calls& calls() { return calls_; }
    Store& store() { return *store_; }
    const CurrentPlacement& placement() const { return placement_; }
    ProbeResponder& probes() { return probes_; }
    Requests& requests() { return requests_; }
    Client& peers() { return peers_; }
    Events& events() { return events_; }
    Operations& operations() { return operations_; }
    Files& files() { return operations_.files(); }
    FileOpener& opener() { return operations_.opener(); }
    Tree& tree() { return operations_.tree(); }
    Broadcast& broadcast() { return operations_.broadcast(); }
    // Readable when Python has something to take: calls or events.
    int fd() const { return ready_.get(); }

    void set_self(std::uint64_t number) {
        placement_.set_self(number);
        store_->place(placement_.get());
    }
    void set_placement(Ring ring, std::vector<std::uint64_t> numbers,
                       std::vector<std::string> addresses, std::uint64_t identity,
                       std::vector<std::string> racks = {},
                       std::optional<Ring> with_lost = std::nullopt) {
        peers_.set_live(addresses);
        placement_.set(std::move(ring), std::move(numbers), std::move(addresses), identity,
                       std::move(racks), std::move(with_lost));
        store_->place(placement_.get());
    }

    // Ends all requests and waits for the threads; removing the tiers is the destructor's.
    void stop() {
        calls_.close();
        peers_.close();
        operations_.broadcast().stop();
        server_.stop();
    }

  private:
    Agent(AgentOptions options, std::unique_ptr<Store> store)
        : store_(std::move(store)),
          peers_(options.job_key),
          probes_(placement_, events_),
          incidents_(events_),
          operations_(*store_, peers_, calls_, placement_, probes_, events_, incidents_),
          server_(operations_,
                  {.job_key = options.job_key, .lanes = lane::kCount, .disk_lane = lane::kDisk}),
          requests_(operations_, peers_, placement_, events_, incidents_, server_.pool()),
          ready_(::epoll_create1(EPOLL_CLOEXEC)) {
        store_->tell(incidents_);
        scrub_.emplace(*store_, options.scrub_rate);
        operations_.use_pool(server_.pool());
        for (int fd : {calls_.fd(), events_.fd()}) {
            epoll_event event{EPOLLIN, {.fd = fd}};
            ::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, fd, &event);
        }
    }

    std::unique_ptr<Store> store_;
    Client peers_;
    Calls calls_;
    Events events_;
    CurrentPlacement placement_;
    ProbeResponder probes_;
    Incidents incidents_;
    Operations operations_;
    Server server_;
    Requests requests_;
    std::optional<Scrub> scrub_;
    Fd ready_;
};

}  // namespace holdfast
