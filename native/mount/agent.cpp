#include "mount/agent.hpp"

#include <algorithm>

#include "store/messages.hpp"

namespace holdfast::mount {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(200);
constexpr Duration kLongestPause = std::chrono::seconds(10);
// A storage that is busy makes answers late. An agent that lives is waited for so many deadlines:
// were it asked for less, it would give up, and every node would read the storage itself.
constexpr int kMostDeadlines = 30;

}  // namespace

std::optional<Passed> Agent::listing(const Root& root, const std::string& path) {
    return tree({.kind = TreeOrder::Kind::Listing, .root = root.path, .path = path});
}

std::optional<Passed> Agent::file(const Root& root, const std::string& path) {
    if (root.spread) return spread(root, path, {});
    return tree({.kind = TreeOrder::Kind::File, .root = root.path, .path = path});
}

std::optional<Passed> Agent::part(const Root& root, const std::string& path, std::uint32_t part) {
    if (root.spread) return spread(root, path, part);
    return tree({.kind = TreeOrder::Kind::Part, .root = root.path, .path = path, .part = part});
}

std::optional<Passed> Agent::spread(const Root& root, const std::string& path,
                                    std::optional<std::uint32_t> part) {
    FileOrder order{.root = root.path,
                    .path = path,
                    .tier = settings_.tier,
                    .largest = settings_.file_largest,
                    .settled_ns = settings_.settled_ns,
                    .part = part};
    return fetch({.op = Op::Open,
                  .flags = kDescriptor,
                  .meta = OpenMessage{OnFailure::Recache, std::move(order)}.encode()},
                 part.has_value());
}

std::optional<Passed> Agent::tree(TreeOrder order) {
    order.settled_ns = settings_.settled_ns;
    return fetch({.op = Op::Tree, .flags = kDescriptor, .meta = order.encode()});
}

std::optional<Passed> Agent::fetch(Question question, bool names_range) {
    if (settings_.agent.empty() || left_alone()) return {};
    question.silence = settings_.deadline;
    question.lives = [this] {
        return client_
            .ask(settings_.agent, {.op = Op::Probe, .meta = ProbeMessage().encode()},
                 settings_.deadline)
            .ok();
    };
    auto exchange = client_.ask(settings_.agent, question, kMostDeadlines * settings_.deadline);
    if (!exchange.ok()) {
        // Anything else: it said no, which is its business, or the storage's.
        const Status& status = exchange.status();
        if (status.at() == settings_.agent &&
            (status.code() == Code::DeadlineMissed || status.code() == Code::Unavailable))
            failed();
        return {};
    }
    answered();
    Passed passed{exchange->take_descriptor(), {}};
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

bool Agent::left_alone() {
    std::lock_guard lock(mutex_);
    return Clock::now() < left_alone_until_;
}

void Agent::answered() {
    std::lock_guard lock(mutex_);
    pause_ = {};
    left_alone_until_ = {};
}

void Agent::failed() {
    std::lock_guard lock(mutex_);
    if (Clock::now() < left_alone_until_) return;  // another who waited for it has said so
    pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
    left_alone_until_ = Clock::now() + pause_;
}

}  // namespace holdfast::mount
