#include "mount/agent_reader.hpp"

#include <chrono>

#include "store/messages.hpp"

namespace holdfast::mount {
namespace {

std::uint64_t now_ms() {
    auto now =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch());
    return static_cast<std::uint64_t>(now.count());
}

}  // namespace

std::optional<AgentContent> AgentReader::listing(const Root& root, const std::string& path) {
    return tree({.kind = TreeOrder::Kind::Listing, .root = root.path, .path = path});
}

std::optional<AgentContent> AgentReader::file(const Root& root, const std::string& path) {
    if (root.spread) return spread(root, path, {});
    return tree({.kind = TreeOrder::Kind::File, .root = root.path, .path = path});
}

std::optional<AgentContent> AgentReader::part(const Root& root, const std::string& path,
                                              std::uint32_t part) {
    if (root.spread) return spread(root, path, part);
    return tree({.kind = TreeOrder::Kind::Part, .root = root.path, .path = path, .part = part});
}

std::optional<AgentContent> AgentReader::spread(const Root& root, const std::string& path,
                                                std::optional<std::uint32_t> part) {
    FileOrder order = settings_.order;
    order.root = root.path;
    order.path = path;
    order.part = part;
    return fetch({.op = Op::Open, .flags = kDescriptor, .meta = order.encode()}, part.has_value());
}

std::optional<AgentContent> AgentReader::tree(TreeOrder order) {
    order.settled_ns = settings_.order.settled_ns;
    return fetch({.op = Op::Tree, .flags = kDescriptor, .meta = order.encode()});
}

std::optional<AgentContent> AgentReader::fetch(Question question, bool names_range) {
    if (settings_.agent.empty() || hf_backs_off(&backoff_, now_ms())) return {};
    question.silence = settings_.deadline;
    question.lives = [this] {
        return connections_
            .ask(settings_.agent, {.op = Op::Probe, .meta = ProbeMessage().encode()},
                 settings_.deadline)
            .ok();
    };
    auto exchange =
        connections_.ask(settings_.agent, question, HF_TREE_DEADLINES * settings_.deadline);
    if (!exchange.ok()) {
        // Anything else: it said no, which is its business, or the storage's.
        const Status& status = exchange.status();
        if (status.at() == settings_.agent &&
            (status.code() == Code::DeadlineMissed || status.code() == Code::Unavailable))
            hf_failed(&backoff_, now_ms());
        return {};
    }
    hf_answered(&backoff_);
    AgentContent passed{exchange->take_descriptor(), {}};
    if (!passed.fd) return {};
    if (names_range) {
        auto reply = PartReply::decode(exchange->meta());
        if (!reply.ok()) return {};
        passed.attributes = reply->attributes;
        passed.range = reply->range;
        return passed;
    }
    auto attributes = Attributes::decode(exchange->meta());
    if (!attributes.ok()) return {};
    passed.attributes = *attributes;
    return passed;
}

}  // namespace holdfast::mount
