// The primitives of a node, as a server offers them: put, get, stat, list, drop, verify, call and
// probe, reads and opens of files, what trees bring. Thread-safe; handle() does not block,
// what must block goes to the pool's lanes.
#pragma once

#include "agent/lanes.hpp"
#include "agent/probe_responder.hpp"
#include "files/broadcast.hpp"
#include "files/file_opener.hpp"
#include "files/files.hpp"
#include "files/tree.hpp"
#include "rpc/calls.hpp"
#include "rpc/client.hpp"
#include "rpc/handler.hpp"
#include "rpc/server.hpp"
#include "store/messages.hpp"
#include "store/store.hpp"

namespace holdfast {

struct OperationCounters {
    std::atomic<std::uint64_t> puts{0}, put_bytes{0}, gets{0}, get_bytes{0}, pulls{0},
        pulled_bytes{0}, missing{0};
};

// An object that is to be had from another agent.
struct Pull {
    std::string key, from;  // an address
    Tier tier = Tier::Memory;
};

class Operations : public Handler {
  public:
    Operations(Store& store, Client& peers, Calls& calls, CurrentPlacement& placement,
               ProbeResponder& probes, Events& events, Incidents& incidents)
        : store_(store),
          peers_(peers),
          calls_(calls),
          placement_(placement),
          probes_(probes),
          events_(events),
          incidents_(incidents) {}
    // The pool is the server's, which needs this handler first.
    void use_pool(Pool& pool) {
        files_.emplace(store_, placement_, incidents_, pool);
        files_->watch_refreshes(
            [this](const std::string& path) { calls_.tell("files", "refreshed", path); });
        opener_.emplace(store_, *files_, peers_, placement_, events_, incidents_);
        tree_.emplace(store_, *files_, peers_, placement_, events_, incidents_);
        broadcast_.emplace(*tree_);
    }

    std::variant<Answer, Blocking> handle(Request request) override;

    // May block. Copies an object from another agent, unless it is here already.
    Result<ObjectPtr> pull_here(const Pull& wanted, Duration deadline);

    const OperationCounters& counters() const { return counters_; }
    Files& files() { return *files_; }
    FileOpener& opener() { return *opener_; }
    Tree& tree() { return *tree_; }
    Broadcast& broadcast() { return *broadcast_; }

  private:
    using Outcome = std::variant<Answer, Blocking>;
    // StaleView unless our view gives the same owners to `copies` copies of the key, and us among
    // them if we `must_own`.
    Status fence(const std::string& key, std::span<const std::uint64_t> owners, std::size_t copies,
                 bool must_own) const;
    Status drop(const DropMessage& message);
    // What is said of an object that is not here to one who asked for member `wanted`.
    Status absent(const std::string& key, std::uint64_t wanted);
    Outcome put(Request& request);
    Answer put_inline(const PutMessage& message, Body& body);
    Answer put_streamed(const PutMessage& message, Body& body);
    Outcome get(Request& request);
    Answer serve(const ObjectPtr& object, const GetMessage& message, bool descriptor);
    Answer serve_heap(const ObjectPtr& object, const GetMessage& message);
    Result<ObjectPtr> compare_there(const ObjectPtr& object, const Pull& wanted, Duration deadline);
    Answer list(const Request& request);
    Answer about_key(const Request& request);
    Outcome call(Request& request);
    Outcome probe(Request& request);

    Store& store_;
    Client& peers_;
    Calls& calls_;
    CurrentPlacement& placement_;
    ProbeResponder& probes_;
    Events& events_;
    Incidents& incidents_;
    std::optional<Files> files_;
    std::optional<FileOpener> opener_;
    std::optional<Tree> tree_;
    std::optional<Broadcast> broadcast_;
    OperationCounters counters_;
};

}  // namespace holdfast
