#include "files/tree.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "files/lanes.hpp"
#include "rpc/body.hpp"
#include "rpc/wire.hpp"

namespace holdfast {
namespace {

// Those who wait for us must hear us before their deadline ends.
Duration less_margin(Duration deadline) {
    return deadline - std::min<Duration>(deadline / 4, std::chrono::milliseconds(100));
}

}  // namespace

void Tree::set(const TreeSettings& settings) {
    head_.set(settings.tier, settings.largest, settings.ttl);
    Lock lock(mutex_);
    settings_ = settings;
    trust_.set(settings.trust);
}

TreeSettings Tree::settings() const {
    Lock lock(mutex_);
    return settings_;
}

// ---- requests --------------------------------------------------------------------------------

void Tree::add_to(Handlers& handlers) {
    handlers.add(Op::Tree, [this](Request& request) { return handle(request); });
}

Outcome Tree::handle(const Request& request) {
    auto order = TreeOrder::decode(request.meta);
    if (!order.ok()) return Answer(order.take_status());
    if (Status wrong = order->check(); !wrong.ok()) return Answer(wrong);
    for (auto number : order->refreshes) files_.heard_of(number);
    bool pass = request.local && request.header.has(kDescriptor);
    if (out(*order, 0))
        return Answer(
            Status(Code::NotCached, order->path + " was changed and has not been refreshed since"));
    if (auto copy = cached(*order)) {
        // A copy that was good when it was asked for is good enough: that all is to be looked at
        // again from now on is no reason to send its reader to the shared file system.
        auto serve_copy = [this, path = order->path, copy = *copy, pass](Body&) -> Answer {
            if (auto document = open(copy, pass)) return serve(*document, pass);
            return Status(Code::NotCached, path + " was just evicted");
        };
        // Those on the disk are not held up by what is fetched.
        if (copy->object->tier == Tier::Disk) return Blocking{lane::kDisk, std::move(serve_copy)};
        if (auto document = open(*copy, pass)) return serve(*document, pass);
    }
    auto path = way(*order);
    if (!path.ok()) return Answer(path.take_status());
    std::size_t lane = lane::kTree + path->level;
    auto climb = [this, order = *order, path = *path, pass](Body& body) -> Answer {
        if (auto document = open_cached(order, pass)) return serve(*document, pass);
        Wait wait(incidents_, "tree", order.path, "", body.deadline(), body.arrived());
        auto document = fetch(order, path, less_margin(body.deadline()));
        wait.ended(document);
        return document.ok() ? serve(*document, pass) : document.take_status();
    };
    return Blocking{lane, std::move(climb)};
}

Result<Document> Tree::obtain(const TreeOrder& order, Duration deadline) {
    if (Status wrong = order.check(); !wrong.ok()) return wrong;
    if (auto document = open_cached(order, false)) return *document;
    auto path = way(order);
    if (!path.ok()) return path.take_status();
    return fetch(order, *path, deadline);
}

bool Tree::out(const TreeOrder& order, std::uint64_t inode) const {
    const InvalidatedPaths& invalidated = files_.invalidated();
    return invalidated.contains(order.path) || (inode != 0 && invalidated.contains(inode)) ||
           (order.kind == TreeOrder::Kind::Listing && invalidated.touches(order.path));
}

std::optional<Catalog::Known> Tree::known(const TreeOrder& order) {
    files_.distrust_if_away();
    auto known = files_.tree_catalog().find(order.path);
    if (!known || BootClock::now() - known->looked >= settings().ttl ||
        S_ISDIR(known->attributes.mode) != (order.kind == TreeOrder::Kind::Listing) ||
        out(order, known->attributes.inode))
        return std::nullopt;
    return known;
}

std::optional<Tree::Copy> Tree::cached(const TreeOrder& order) {
    auto known = this->known(order);
    if (!known) return std::nullopt;
    auto object = store_.peek(tree_key(order, known->attributes.identity(), known->listing_crc));
    if (!object) return std::nullopt;
    return Copy{*known, std::move(object)};
}

std::optional<Document> Tree::open(const Copy& copy, bool counts) {
    auto& [known, object] = copy;
    auto file = store_.open_file(object);
    if (!file.ok()) return std::nullopt;
    if (counts) store_.find(object->key);
    ++counters_.hits;
    return Document{.attributes = known.attributes,
                    .looked = known.looked,
                    .keep = true,
                    .file = std::make_shared<const Fd>(std::move(*file)),
                    .size = object->size,
                    .crc = object->crc,
                    .on_disk = object->tier == Tier::Disk};
}

std::optional<Document> Tree::open_cached(const TreeOrder& order, bool counts) {
    auto copy = cached(order);
    return copy ? open(*copy, counts) : std::nullopt;
}

Answer Tree::serve(const Document& document, bool pass) {
    Answer answer;
    if (pass) {
        auto descriptor = reopen(*document.file);
        if (!descriptor.ok()) return descriptor.take_status();
        answer.flags = kDescriptor;
        answer.meta = document.attributes.encode();
        answer.descriptors.push_back(std::move(*descriptor));
        return answer;
    }
    auto age =
        std::chrono::duration_cast<std::chrono::nanoseconds>(BootClock::now() - document.looked);
    answer.meta =
        TreeReply{document.attributes, static_cast<std::uint64_t>(age.count()), document.keep}
            .encode();
    answer.body = FileSlice{document.file, 0, document.size, document.on_disk};
    answer.body_crc = document.crc;
    counters_.bytes_down += document.size;
    return answer;
}

Result<Document> Tree::fetch(const TreeOrder& order, const Way& way, Duration deadline) {
    switch (order.kind) {
        case TreeOrder::Kind::File:
            ++counters_.files;
            break;
        case TreeOrder::Kind::Listing:
            ++counters_.listings;
            break;
        case TreeOrder::Kind::Part:
            ++counters_.parts;
    }
    // Requests that may ask as many others: who waits here does so for one of its own lane. And
    // nobody who comes after a refresh gets what was asked for before it.
    std::string name = MetaWriter()
                           .number(static_cast<std::uint8_t>(order.kind))
                           .number(order.part)
                           .number(order.settled_ns)
                           .number(way.level)
                           .number(files_.tree_catalog().epoch())
                           .text(order.root)
                           .text(order.path)
                           .take();
    auto bring = [&]() -> Result<Document> {
        // Whoever brought it may have ended after we looked.
        if (auto here = open_cached(order, false)) return *here;
        return way.level == 0 ? head_.read(order, deadline) : find(order, way, deadline);
    };
    auto document = fetches_.run(name, deadline, bring)
                        .value_or(Status(Code::NotCached, "it did not arrive in time"));
    if (document.ok() && out(order, document->attributes.inode))
        document = Status(Code::NotCached, order.path + " has just changed");
    if (!document.ok()) ++counters_.not_cached;
    return document;
}

}  // namespace holdfast
