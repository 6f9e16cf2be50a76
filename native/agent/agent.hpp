// The native half of an agent: store, server and peers put together.
#pragma once

#include <sys/epoll.h>

#include <memory>
#include <optional>
#include <string>

#include "agent/lanes.hpp"
#include "agent/operations.hpp"
#include "agent/probe_responder.hpp"
#include "agent/requests.hpp"
#include "files/broadcast.hpp"
#include "files/file_opener.hpp"
#include "files/files.hpp"
#include "files/tree.hpp"
#include "placement/current_placement.hpp"
#include "rpc/calls.hpp"
#include "rpc/connection_pool.hpp"
#include "rpc/events.hpp"
#include "rpc/handlers.hpp"
#include "rpc/incidents.hpp"
#include "rpc/server.hpp"
#include "store/scrub.hpp"
#include "store/store.hpp"

namespace holdfast {

struct AgentOptions {
    std::string job_key;
    std::array<TierOptions, kTiers> tiers;
    std::uint64_t scrub_rate = 0;  // bytes per second
    Silence silence = {};
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
    ConnectionPool& peers() { return peers_; }
    Events& events() { return events_; }
    Operations& operations() { return operations_; }
    Files& files() { return files_; }
    FileOpener& opener() { return opener_; }
    Tree& tree() { return tree_; }
    Broadcast& broadcast() { return broadcast_; }
    // Readable when Python has something to take: calls or events.
    int fd() const { return ready_.get(); }

    void set_self(std::uint64_t number) {
        placement_.set_self(number);
        store_->place(placement_.get(), number);
    }
    void set_placement(PlacementPtr placement) {
        peers_.set_live(placement->addresses);
        placement_.set(placement);
        store_->place(std::move(placement), placement_.self());
    }
    // Members that are suspected from now on, and no others.
    void set_suspects(std::vector<std::uint64_t> numbers) {
        placement_.set_suspects(std::move(numbers));
    }

    // Ends all requests and waits for the threads; removing the tiers is the destructor's.
    void stop() {
        calls_.close();
        peers_.close();
        broadcast_.stop();
        server_.stop();
    }

  private:
    Agent(AgentOptions options, std::unique_ptr<Store> store)
        : store_(std::move(store)),
          peers_(options.job_key),
          incidents_(events_),
          server_(handlers_, {.job_key = options.job_key,
                              .lanes = lane::kCount,
                              .disk_lane = lane::kDisk,
                              .silence = options.silence}),
          files_(*store_, placement_, incidents_, server_.pool()),
          opener_(*store_, files_, peers_, placement_, events_, incidents_),
          tree_(*store_, files_, peers_, placement_, events_, incidents_),
          broadcast_(tree_),
          operations_(*store_, peers_, calls_, placement_, incidents_, server_.pool()),
          probes_(placement_, peers_, events_),
          requests_(operations_, peers_, placement_, events_, incidents_, server_.pool()),
          ready_(::epoll_create1(EPOLL_CLOEXEC)) {
        store_->tell(incidents_);
        scrub_.emplace(*store_, options.scrub_rate);
        files_.watch_refreshes(
            [this](const std::string& path) { calls_.tell("files", "refreshed", path); });
        broadcast_.watch([this] { calls_.tell("files", "progressed", ""); });
        handlers_.watch_overdue([this] { return probes_.overdue(); });
        operations_.add_to(handlers_);
        files_.add_to(handlers_);
        opener_.add_to(handlers_);
        tree_.add_to(handlers_);
        probes_.add_to(handlers_);
        for (int fd : {calls_.fd(), events_.fd()}) {
            epoll_event event{EPOLLIN, {.fd = fd}};
            ::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, fd, &event);
        }
    }

    std::unique_ptr<Store> store_;
    ConnectionPool peers_;
    Calls calls_;
    Events events_;
    CurrentPlacement placement_;
    Incidents incidents_;
    Handlers handlers_;
    Server server_;
    Files files_;
    FileOpener opener_;
    Tree tree_;
    Broadcast broadcast_;
    Operations operations_;
    ProbeResponder probes_;
    Requests requests_;
    std::optional<Scrub> scrub_;
    Fd ready_;
};

}  // namespace holdfast
