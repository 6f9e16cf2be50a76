// How a node asks those above it in a tree, and what it does when they fail.
#include <algorithm>
#include <array>
#include <span>

#include "files/tree.hpp"
#include "store/messages.hpp"

namespace holdfast {
namespace {

// How many bytes of a file of that size are asked for.
std::uint64_t bytes_of(const TreeOrder& order, std::uint64_t size) {
    if (order.kind == TreeOrder::Kind::File) return size;
    std::uint64_t start = order.part * kPartBytes;
    return start < size ? std::min(size - start, kPartBytes) : 0;
}

}  // namespace

Result<Tree::Way> Tree::way(const TreeOrder& order) {
    Way found{placement_.get(), {}, 0};
    if (!found.placement || found.placement->numbers.empty())
        return Status(Code::NotCached, "this agent does not know its peers yet");
    const Placement& placement = *found.placement;
    auto self = std::ranges::find(placement.numbers, placement_.self()) - placement.numbers.begin();
    found.above = placement.trees.ancestors(placement.ring, file_prefix(order.path),
                                            static_cast<std::uint32_t>(self), settings().degree);
    std::size_t depth = found.above.size();
    for (auto most = counters_.depth.load(); most < depth;)
        if (counters_.depth.compare_exchange_weak(most, depth)) break;
    if (order.stands_in || depth == 0) return found;
    if (order.hops == 0)
        return Status(Code::StaleView, order.path + " has another head in this agent's view");
    if (order.kind == TreeOrder::Kind::Part)
        found.above.erase(found.above.begin(), found.above.end() - 1);
    found.level = static_cast<std::uint8_t>(std::min<std::size_t>(found.above.size(), order.hops));
    // With fewer left than stand above us, some are left out.
    found.above.erase(found.above.begin(), found.above.end() - found.level);
    return found;
}

Result<Document> Tree::find(const TreeOrder& order, const Way& way, Duration deadline) {
    TimePoint end = Clock::now() + deadline;
    const Placement& placement = *way.placement;
    // Before the list: who is asked may not have heard of a refresh that is not on it.
    auto epoch = files_.tree_catalog().epoch();
    TreeOrder asked = order;
    asked.hops = static_cast<std::uint8_t>(way.level - 1);
    asked.refreshes = files_.refreshes().recent(Clock::now());
    auto final = [](const Result<Document>& answer) {
        return answer.ok() || answer.status().code() == Code::NotCached ||
               answer.status().code() == Code::BadInput;
    };
    for (std::uint32_t node : way.above) {
        auto answer = ask(
            {placement.numbers[node], placement.addresses[node], end - Clock::now(), epoch}, asked);
        if (final(answer)) return answer;
    }
    // The head failed, or does not think that it is one.
    std::array<std::uint32_t, kMaxCopies> room;
    std::size_t count = placement.ring.owners(file_prefix(order.path), room);
    asked.hops = 0;
    asked.stands_in = true;
    for (std::uint32_t node : std::span(room).first(count).subspan(1)) {
        Duration left = end - Clock::now();
        if (left <= Duration::zero()) break;
        auto answer =
            placement.numbers[node] == placement_.self()
                ? head_.read(order, left)
                : ask({placement.numbers[node], placement.addresses[node], left, epoch}, asked);
        if (final(answer)) return answer;
    }
    return Status(Code::NotCached, "no node that answers has " + order.path);
}

Result<Document> Tree::ask(const Asked& asked, const TreeOrder& order) {
    Status late(Code::DeadlineMissed, "the deadline has passed");
    if (asked.left <= Duration::zero()) return late;
    {
        Lock lock(mutex_);
        if (!trust_.trusts(asked.member, Clock::now()))
            return Status(Code::Unavailable, "it failed a moment ago", asked.address);
    }
    TimePoint end = Clock::now() + asked.left;
    for (bool again = false;; again = true) {
        Seen seen;
        Wait wait(incidents_, "climb", order.path, asked.address, end - Clock::now());
        auto document =
            receive({asked.member, asked.address, end - Clock::now(), asked.epoch}, order, seen);
        wait.ended(document);
        if (document.ok()) return document;
        const Status& status = document.status();
        // A body that breaks off: whether its sender lives, a second request tells at once. Bytes
        // that do not match: it has looked at its copy again.
        bool retry =
            seen.began && (status.code() == Code::Unavailable || status.code() == Code::Damaged);
        if (retry && !again && Clock::now() < end) continue;
        // Not for what took longer than anybody had, nor if it is only slow.
        if (is_failure(status) && Clock::now() < end && !seen.lives)
            failed(asked.member, order.path, status);
        return document;
    }
}

Result<Document> Tree::receive(const Asked& asked, const TreeOrder& order, Seen& seen) {
    TimePoint start = Clock::now();
    BootTime started = BootClock::now();
    TreeSettings set = settings();
    Question question{.op = Op::Tree, .meta = order.encode(), .silence = set.trust.file_deadline};
    bool dead = false;
    auto lives_now = [&] {
        dead = !lives(asked.member, asked.address, set.trust.file_deadline);
        return !dead;
    };
    // Connections and bodies may be late, too, without anybody having asked.
    auto is_slow = [&](const Status& status) {
        return status.code() == Code::DeadlineMissed && !dead && lives_now();
    };
    question.lives = lives_now;
    question.in_pieces = true;
    auto exchange = peers_.ask(asked.address, question, asked.left);
    if (!exchange.ok()) {
        seen.lives = is_slow(exchange.status());
        return exchange.take_status();
    }
    seen.began = true;
    auto reply = TreeReply::decode(exchange->meta());
    if (!reply.ok()) return reply.take_status();
    const Attributes& attributes = reply->attributes;
    std::uint64_t size = exchange->reply().body_bytes;
    if (order.kind != TreeOrder::Kind::Listing && size != bytes_of(order, attributes.size))
        return Status(Code::Damaged, "its size does not match its attributes", asked.address);
    std::uint32_t listing_crc =
        order.kind == TreeOrder::Kind::Listing ? exchange->reply().body_crc : 0;
    std::string key = tree_key(order, attributes.identity(), listing_crc);
    auto intake = Intake::open(store_, key, size, set.tier, reply->keep && keeps(order, size));
    if (!intake.ok()) return files_.left_to_source(intake.status());
    Status status = exchange->read_body(
        [&](const char* data, std::size_t piece) { return intake->append(data, piece); });
    if (status.code() == Code::Damaged)
        (void)peers_.ask(asked.address, {.op = Op::Verify, .meta = KeyMessage{key}.encode()},
                         set.trust.file_deadline);
    if (!status.ok()) {
        seen.lives = is_slow(status);
        return status;
    }
    BootTime looked = started - std::chrono::nanoseconds(reply->age_ns);
    auto document = std::move(*intake).finish(
        {.attributes = attributes, .looked = looked, .keep = reply->keep});
    if (!document.ok()) return document;
    if (reply->keep)
        files_.tree_catalog().learn(order.path, attributes, asked.epoch, looked, listing_crc);
    auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    counters_.bytes_up += size;
    ++counters_.hops;
    counters_.hop_us += static_cast<std::uint64_t>(took.count());
    Lock lock(mutex_);
    trust_.answered(asked.member, took);
    return document;
}

// Parts of large files are not worth what they would drive out. Some room stays free for those that
// only pass through, which would drive out as much.
bool Tree::keeps(const TreeOrder& order, std::uint64_t size) {
    if (order.kind != TreeOrder::Kind::Part) return true;
    Usage usage = store_.usage(settings().tier);
    std::uint64_t free = std::max(kPartBytes, usage.capacity / 8);
    return usage.occupied + usage.reserved + size + free <= usage.capacity;
}

bool Tree::lives(std::uint64_t member, const std::string& address, Duration wait) {
    ProbeMessage probe{placement_.self(), member, placement_.identity(), {}, {}};
    return peers_.ask(address, {.op = Op::Probe, .meta = probe.encode()}, wait).ok();
}

void Tree::failed(std::uint64_t member, const std::string& path, const Status& status) {
    ++counters_.failures;
    {
        Lock lock(mutex_);
        trust_.failed(member, false, Clock::now());
    }
    events_.push(event::Doubted{member, path, status});
}

}  // namespace holdfast
