// The primitives of a node on objects: put, get, stat, list, drop and verify; pulls, and calls to
// its Python side. Thread-safe; what must block goes to the pool's lanes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "agent/lanes.hpp"
#include "placement/current_placement.hpp"
#include "rpc/calls.hpp"
#include "rpc/connection_pool.hpp"
#include "rpc/handlers.hpp"
#include "rpc/incidents.hpp"
#include "rpc/pool.hpp"
#include "store/boxes_message.hpp"
#include "store/handing.hpp"
#include "store/messages.hpp"
#include "store/store.hpp"

namespace holdfast {

struct OperationCounters {
    std::atomic<std::uint64_t> puts{0}, put_bytes{0}, gets{0}, get_bytes{0}, pulls{0},
        pulled_bytes{0}, missing{0};
};

class Composition;

// An object that another agent has.
struct Pull {
    std::string key, from;  // an address
    Tier tier = Tier::Memory;
};

class Operations {
  public:
    Operations(Store& store, ConnectionPool& peers, Calls& calls, const CurrentPlacement& placement,
               Incidents& incidents, Pool& pool)
        : store_(store),
          peers_(peers),
          calls_(calls),
          placement_(placement),
          incidents_(incidents),
          handing_(store, pool, lane::kDisk) {}

    void add_to(Handlers& handlers);

    // May block. Copies an object from another agent, unless it is here already.
    Result<ObjectPtr> pull_here(const Pull& wanted, Duration deadline);

    const OperationCounters& counters() const { return counters_; }

  private:
    using Numbers = std::span<const std::uint64_t>;  // of members
    // StaleView unless our view gives the same owners to `copies` copies of the key, `without`
    // those whom we suspect ourselves, and us among them if we `must_own`.
    Status fence(const std::string& key, Numbers owners, Numbers without, std::size_t copies,
                 bool must_own) const;
    Status may_leave_out(const Placement& placement, const std::string& key, Numbers without,
                         std::size_t copies) const;
    Answer drop(const Request& request);
    Status drop(const DropMessage& message);
    Answer drop_below(const Request& request);
    // What is said of an object that is not here to one who asked for `expected_member`.
    Status absent(const std::string& key, std::uint64_t expected_member);
    Outcome put(Request& request);
    Answer put_inline(const PutMessage& message, Body& body);
    Answer put_streamed(const PutMessage& message, Body& body);
    // Lets the next owner, if there is one, reserve room for that many bytes.
    Result<std::optional<Exchange>> ask_next(const PutMessage& message, std::uint64_t size,
                                             const Body& body);
    // All bytes are here, and have been sent to the next owner: it commits before we do.
    Answer finish(const PutMessage& message, Writer& writer, std::optional<Exchange>& next,
                  std::uint32_t crc, const Body& body);
    Answer commit(Writer& writer, std::uint32_t crc);
    Outcome hand(Request& request);
    Outcome seal(Request& request);
    Answer seal(const PutMessage& message, std::unique_ptr<Kept>& kept, const std::string& sums,
                const Body& body);
    Outcome get(Request& request);
    Answer serve(const ObjectPtr& object, const GetMessage& message, bool descriptor);
    Answer serve_heap(const ObjectPtr& object, const GetMessage& message);
    Outcome boxes(Request& request);
    // Sets how many bytes it packed.
    Answer boxes(const BoxesMessage& message, bool descriptors, std::uint64_t& packed);
    Status pass(const Composition& one, BoxesReply::Entry& replied, std::vector<Fd>& descriptors);
    Status damaged_there(const Pull& wanted, Status status, Duration deadline);
    Result<ObjectPtr> compare_there(const ObjectPtr& object, const Pull& wanted, Duration deadline);
    Answer list(const Request& request);
    Answer stat(const Request& request, bool verify);
    Outcome call(Request& request);
    Outcome wait(Request& request);

    Store& store_;
    ConnectionPool& peers_;
    Calls& calls_;
    const CurrentPlacement& placement_;
    Incidents& incidents_;
    Handing handing_;
    OperationCounters counters_;
};

}  // namespace holdfast
