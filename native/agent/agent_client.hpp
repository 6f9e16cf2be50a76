// The primitives as a client asks for them, each one typed request to one agent.
// Thread-safe, like the ConnectionPool underneath; every call may block for its deadline, but for
// wait(), which gives the answer to be.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/messages.hpp"
#include "rpc/connection_pool.hpp"
#include "store/boxes_message.hpp"
#include "store/messages.hpp"
#include "store/watermarks.hpp"

namespace holdfast {

struct PutOptions {
    ObjectHeader header = {};
    std::uint16_t up_to = 0;                  // as in PutMessage
    std::vector<std::uint64_t> without = {};  // owners that failed, in whose place others stand
    // Where the first owner is the agent of this host we write the bytes to a file that it hands
    // us.
    bool hand = true;
};

class AgentClient {
  public:
    explicit AgentClient(std::string job_key) : connections_(std::move(job_key), kLooksFor) {}

    // Stores at all owners, the first of which passes it on; `deadline` is for one of them.
    // `owners` are their numbers in the order of the placement, `addresses` where they live.
    Status put(const std::vector<std::string>& addresses, const std::vector<std::uint64_t>& owners,
               const std::string& key, std::string_view data, Tier tier, Duration deadline,
               PutOptions options = {});

    // The reply is there, its body still to be read (or a descriptor to be taken).
    Result<Exchange> get(const std::string& address, const GetMessage& message, bool descriptor,
                         Duration deadline);
    // Elements of cells. The body has those that are said to come as bytes, in order; of those that
    // come in pieces, which only an agent of this host passes, each piece has its descriptor.
    struct Boxes {
        Exchange exchange;
        std::vector<BoxesReply::Entry> entries;
        std::vector<Fd> descriptors;
    };
    Result<Boxes> boxes(const std::string& address, const BoxesMessage& message, bool local,
                        Duration deadline);
    // A file of the shared file system, from the node that owns it or is asked to; the answer's
    // meta is its Attributes.
    Result<Exchange> read(const std::string& address, const FileOrder& order, Duration deadline);
    // The same by descriptor, from the agent of this host: the reply brings it.
    Result<Exchange> open_file(const std::string& address, const FileOrder& order,
                               Duration deadline);
    Result<Attributes> attributes(const std::string& address, const FileOrder& order,
                                  Duration deadline);
    Result<Attributes> warm(const std::string& address, const FileOrder& order, Duration deadline);

    Result<ObjectInfo> stat(const std::string& address, const std::string& key, Duration deadline,
                            std::uint64_t wanted = 0);
    Result<ObjectInfo> verify(const std::string& address, const std::string& key,
                              Duration deadline);
    Result<ListReply> list(const std::string& address, const ListMessage& message,
                           Duration deadline);
    Status drop(const std::string& address, const DropMessage& message, Duration deadline);
    Status drop_below(const std::string& address, const Watermark& mark, Duration deadline);
    Result<std::string> call(const std::string& address, const CallMessage& message,
                             std::string_view body, Duration deadline);

    // A call that may be answered late. `silence` is what the caller bears of the agent meanwhile.
    Result<PendingCall> wait(const std::string& address, const WaitMessage& message,
                             Duration silence);

    ConnectionPool& connections() { return connections_; }

  private:
    Status put_through(const std::string& address, const PutMessage& message, std::string_view data,
                       Duration deadline);
    bool may_hand(const std::string& address, std::size_t size) const;
    // Nothing if it has to go through the socket.
    std::optional<Status> put_by_hand(const std::string& address, const PutMessage& message,
                                      std::string_view data, Duration deadline);
    void watch(const std::string& address, Question& question);
    // An agent that was stopped, or killed while its file system hangs, keeps its connections open:
    // one that is silent for long is probed, and nobody waits for it any longer if it does not
    // answer.
    Result<Exchange> ask_watched(const std::string& address, Question question, Duration deadline);
    Result<ObjectInfo> ask_info(Op op, const std::string& address, std::string meta,
                                Duration deadline);

    // A program has nothing else to do until the reply is there. Small ones come within this time,
    // and of a request that takes long it is a small part.
    static constexpr auto kLooksFor = std::chrono::microseconds(50);
    static constexpr auto kLongestSilence = std::chrono::seconds(1);
    // Who has no number free for a descriptor asks for none for so long.
    static constexpr auto kWithoutHand = std::chrono::seconds(1);
    ConnectionPool connections_;
    std::atomic<TimePoint> hands_from_{TimePoint()};
};

}  // namespace holdfast
