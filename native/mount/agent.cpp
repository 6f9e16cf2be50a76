#include "mount/agent.hpp"

#include <algorithm>

#include "store/messages.hpp"

namespace holdfast::mount {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(200);
constexpr Duration kLongestPause = std::chrono::seconds(10);
// A storage that is busy makes answers late: the agent is asked again, and joins what is in
// flight, for so many deadlines.
constexpr int kMostDeadlines = 30;

}  // namespace

std::optional<Passed> Agent::listing(const Root& root, const std::string& path) {
    return tree({.kind = TreeOrder::Kind::Listing, .root = root.path, .path = path});
}

std::optional<Passed> Agent::file(const Root& root, const std::string& path) {
    if (!root.spread) return tree({.kind = TreeOrder::Kind::File, .root = root.path, .path = path});
    FileOrder order{.root = root.path,
                    .path = path,
                    .tier = settings_.tier,
                    .largest = settings_.file_largest,
                    .settled_ns = settings_.settled_ns,
                    .one_version = true};
    return fetch({.op = Op::Open,
                  .flags = kDescriptor,
                  .meta = OpenMessage{OnFailure::Recache, std::move(order)}.encode()});
}

std::optional<Passed> Agent::part(const Root& root, const std::string& path, std::uint32_t part) {
    return tree({.kind = TreeOrder::Kind::Part, .root = root.path, .path = path, .part = part});
}

std::optional<Passed> Agent::tree(TreeOrder order) {
    order.settled_ns = settings_.settled_ns;
    return fetch({.op = Op::Tree, .flags = kDescriptor, .meta = order.encode()});
}

std::optional<Passed> Agent::fetch(const Question& question) {
    if (settings_.agent.empty() || left_alone()) return {};
    for (int i = 0; i < kMostDeadlines; ++i) {
        auto exchange = client_.ask(settings_.agent, question, settings_.deadline);
        if (exchange.ok()) {
            answered();
            auto attributes = Attributes::decode(exchange->meta());
            Passed passed{exchange->take_descriptor(),
                          attributes.ok() ? *attributes : Attributes()};
            if (!attributes.ok() || !passed.fd) return {};
            return passed;
        }
        const Status& status = exchange.status();
        bool silent = status.at() == settings_.agent &&
                      (status.code() == Code::DeadlineMissed || status.code() == Code::Unavailable);
        if (!silent) return {};  // it said no: its business, or the storage's
        if (status.code() == Code::Unavailable || !lives()) {
            failed();
            return {};
        }
    }
    return {};
}

// What it answers does not matter.
bool Agent::lives() {
    auto answer =
        client_.ask(settings_.agent, {.op = Op::Stat, .meta = KeyMessage{"@mount"}.encode()},
                    settings_.deadline);
    return answer.ok() || answer.status().at() != settings_.agent ||
           (answer.status().code() != Code::DeadlineMissed &&
            answer.status().code() != Code::Unavailable);
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
    pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
    left_alone_until_ = Clock::now() + pause_;
}

}  // namespace holdfast::mount
