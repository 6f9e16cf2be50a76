// The primitives of a node, as a server offers them: put, get, fill, pull, stat, list, drop, pin,
// verify, call and probe. Thread-safe; handle() does not block, what must block goes to the pool's
// lanes.
#pragma once

#include "rpc/calls.hpp"
#include "rpc/client.hpp"
#include "rpc/handler.hpp"
#include "rpc/server.hpp"
#include "store/fill.hpp"
#include "store/messages.hpp"
#include "store/presence.hpp"
#include "store/store.hpp"

namespace holdfast {

// Lanes of the pool. A put with n owners after this one runs in lane n, so that it only ever waits
// for lane n-1 of another agent.
namespace lane {
constexpr std::size_t kDisk = kMaxCopies;       // reads of files that may block
constexpr std::size_t kOpen = kMaxCopies + 1;   // requests that wait for a fill to open its source
constexpr std::size_t kFill = kMaxCopies + 2;   // reads of the shared file system
constexpr std::size_t kPull = kMaxCopies + 3;   // copies from other agents
constexpr std::size_t kCall = kMaxCopies + 4;   // waits for Python
constexpr std::size_t kRelay = kMaxCopies + 5;  // probes for others
constexpr std::size_t kAsk = kMaxCopies + 6;    // our own calls; they wait for kCall
constexpr std::size_t kProbe = kMaxCopies + 7;  // our own probes; they wait for kRelay
constexpr std::size_t kCount = kMaxCopies + 8;
}  // namespace lane

struct OperationCounters {
    std::atomic<std::uint64_t> puts{0}, put_bytes{0}, gets{0}, get_bytes{0}, pulls{0},
        pulled_bytes{0}, missing{0};
};

class Operations : public Handler {
  public:
    Operations(Store& store, Client& peers, Calls& calls, Presence& presence)
        : store_(store), peers_(peers), calls_(calls), presence_(presence) {}
    // The pool is the server's, which needs this handler first.
    void use_pool(Pool& pool) { fills_.emplace(store_, pool, lane::kFill); }

    std::variant<Answer, Blocking> handle(Request request) override;

    // May block. Copies an object from another agent, unless it is here already.
    Result<ObjectPtr> pull_here(const PullMessage& message, Duration patience);

    const OperationCounters& counters() const { return counters_; }
    const Fills::Counters& fill_counters() const { return fills_->counters(); }

  private:
    using Outcome = std::variant<Answer, Blocking>;
    // StaleView unless our view gives the key the same owners, and us among them if we `must_own`.
    Status fence(const std::string& key, std::span<const std::uint64_t> owners,
                 bool must_own) const;
    Outcome put(Request& request);
    Answer put_inline(const PutMessage& message, Body& body);
    Answer put_streamed(const PutMessage& message, Body& body);
    Outcome get(Request& request);
    Answer serve(const ObjectPtr& object, const GetMessage& message, bool descriptor);
    Answer serve_heap(const ObjectPtr& object, const GetMessage& message);
    Outcome fill(Request& request);
    Outcome pull(Request& request);
    Result<ObjectPtr> compare_there(const ObjectPtr& object, const PullMessage& message,
                                    Duration patience);
    Answer list(const Request& request);
    Answer about_key(const Request& request);
    Outcome call(Request& request);
    Outcome probe(Request& request);
    ObjectInfo info(const Object& object) {
        return ObjectInfo::of(object, store_.pins(object.key));
    }

    Store& store_;
    Client& peers_;
    Calls& calls_;
    Presence& presence_;
    std::optional<Fills> fills_;
    OperationCounters counters_;
};

}  // namespace holdfast
