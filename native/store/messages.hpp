// What requests and replies carry in their meta, written and read in one place.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "store/object.hpp"

namespace holdfast {

constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};
constexpr std::size_t kMaxNews = 32 << 10;  // of one probe or answer

struct PutMessage {
    std::string key;
    Tier tier = Tier::Memory;
    std::vector<std::uint64_t> owners = {};  // all of them, as the sender's view has them
    std::vector<std::string> onward = {};    // addresses of those after this one
    // Owners that failed the sender; the next ones of their slot stand in the list instead.
    std::vector<std::uint64_t> without = {};
    ObjectHeader header = {};
    // Not 0: this many copies are wanted as soon as there are nodes for them; one will do.
    std::uint16_t up_to = 0;
    std::uint16_t copies() const {
        return up_to != 0 ? up_to : static_cast<std::uint16_t>(owners.size());
    }
    std::uint16_t least() const { return up_to != 0 ? 1 : copies(); }
    std::string encode() const;
    static Result<PutMessage> decode(const std::string& meta);
};

// For files to be written by a program, in one tier.
struct HandMessage {
    static constexpr std::size_t kMost = 64;  // not sealed, of one connection
    // Smaller ones go along with their put; of larger ones the checksums would not fit a message.
    static constexpr std::uint64_t kLeast = kHeapLimit, kLargest = std::uint64_t{1} << 38;
    struct File {
        std::string key;
        std::uint64_t size = 0;
        ObjectHeader header = {};
    };
    Tier tier = Tier::Memory;
    std::vector<File> files = {};
    std::string encode() const;
    static Result<HandMessage> decode(const std::string& meta);
};

// The body of a seal: the checksum of each kChunk.
std::string encode_checksums(const std::vector<std::uint32_t>& chunks);
Result<std::vector<std::uint32_t>> decode_checksums(const std::string& body);

struct GetMessage {
    std::string key;
    std::uint64_t offset = 0;
    std::uint64_t length = kToTheEnd;
    std::uint64_t expected_member = 0;  // the member that is asked; 0: whichever lives there
    std::string encode() const;
    static Result<GetMessage> decode(const std::string& meta);
};

struct DropMessage {
    std::string key;
    std::vector<std::uint64_t> owners = {};
    std::uint16_t copies = 0;  // that the sender knows to be wanted, if there are fewer owners
    std::vector<std::uint64_t> without = {};  // as in PutMessage
    std::string encode() const;
    static Result<DropMessage> decode(const std::string& meta);
};

struct KeyMessage {  // stat, verify
    std::string key;
    std::uint64_t expected_member = 0;  // as in GetMessage
    std::string encode() const;
    static Result<KeyMessage> decode(const std::string& meta);
};

struct ListMessage {
    std::string prefix, after;
    std::string encode() const;
    static Result<ListMessage> decode(const std::string& meta);
};

struct CallMessage {
    std::string service, method;
    std::string encode() const;
    static Result<CallMessage> decode(const std::string& meta);
};

// The same with its message, to be answered within so long.
struct WaitMessage {
    std::string service, method, message;
    std::chrono::milliseconds within{};
    std::string encode() const;
    static Result<WaitMessage> decode(const std::string& meta);
};

// A probe, with news of members (in a form that only Python reads).
struct ProbeMessage {
    std::uint64_t sender = 0;
    std::uint64_t expected_member = 0;  // the member that is meant; 0: whichever lives there
    std::uint64_t identity = 0;
    std::string target;  // empty: the receiver; else the address that it shall ask for us
    std::string news;
    std::string encode() const;
    static Result<ProbeMessage> decode(const std::string& meta);
};

struct ProbeReply {
    std::uint64_t identity = 0;
    std::uint32_t age_ms = 0;  // since the Python loop was last seen alive
    std::string news;
    std::string encode() const;
    static Result<ProbeReply> decode(const std::string& meta);
};

// What a node knows of an object: the reply to get, stat and, one after the other, list.
struct ObjectInfo {
    std::string key;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
    Tier tier = Tier::Memory;
    bool has_source = false;
    std::uint16_t copies = 1;
    std::uint16_t least = 1;
    ObjectHeader header = {};

    static ObjectInfo of(const Object& object);
    std::string encode() const;
    static Result<ObjectInfo> decode(const std::string& meta);
};

struct ListReply {
    std::vector<ObjectInfo> objects;
    bool more = false;
    std::string encode() const;
    static Result<ListReply> decode(const std::string& body);
};

}  // namespace holdfast
