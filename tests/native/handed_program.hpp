// A program that files are handed to, for the tests of handing.
#pragma once

#include "store/handing.hpp"
#include "support.hpp"

namespace holdfast::test {

inline bool settled(Node& node) {
    return eventually([&] {
        for (Tier tier : {Tier::Memory, Tier::Disk})
            if (node.store().usage(tier).reserved != 0) return false;
        return true;
    });
}

inline bool nothing_left(Node& node) {
    return settled(node) && eventually([&] {
               return files_in(node.tier(Tier::Memory)) + files_in(node.tier(Tier::Disk)) == 0;
           });
}

inline std::vector<std::uint32_t> sums(std::string_view bytes) {
    std::vector<std::uint32_t> chunks;
    for (std::size_t at = 0; at < bytes.size(); at += kChunk) {
        auto chunk = bytes.substr(at, kChunk);
        chunks.push_back(crc32c(0, chunk.data(), chunk.size()));
    }
    return chunks;
}

inline bool write_to(const Fd& file, std::string_view bytes, off_t at = 0) {
    return ::pwrite(file.get(), bytes.data(), bytes.size(), at) ==
           static_cast<ssize_t>(bytes.size());
}

// A program of a node's host, on one connection.
class Program {
  public:
    explicit Program(Node& node, std::string address = {})
        : address_(address.empty() ? node.local : address) {}

    Status hand(const std::vector<HandMessage::File>& files, Tier tier = Tier::Memory,
                Duration bears = kDeadline) {
        Question question{
            .op = Op::Hand, .flags = kDescriptor, .meta = HandMessage{tier, files}.encode()};
        Status status;
        if (exchange_) {
            status = exchange_->ask_again(question);
        } else {
            auto exchange = connections_.ask(address_, question, bears);
            if (!exchange.ok()) return exchange.take_status();
            exchange_.emplace(std::move(*exchange));
        }
        passed = status.ok() ? exchange_->take_descriptors() : std::vector<Fd>();
        return status;
    }
    Status seal(const std::vector<Node*>& owners, const std::string& key,
                const std::vector<std::uint32_t>& chunks, Tier tier = Tier::Memory) {
        PutMessage message{key, tier};
        for (Node* owner : owners) {
            message.owners.push_back(owner->number);
            if (owner != owners.front()) message.onward.push_back(owner->tcp);
        }
        std::string body = encode_checksums(chunks);
        Question question{.op = Op::Seal, .meta = message.encode(), .body = body};
        return exchange_->ask_again(question);
    }
    void leave() {
        exchange_.reset();
        connections_.close_idle();
    }
    std::vector<Fd> passed;

  private:
    std::string address_;
    ConnectionPool connections_{kKey};
    std::optional<Exchange> exchange_;
};

}  // namespace holdfast::test
