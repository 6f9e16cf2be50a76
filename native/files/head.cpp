#include "files/head.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.hpp"
#include "base/scratch.hpp"
#include "files/listing.hpp"
#include "rpc/wire.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kPiece = 256 << 10;

}  // namespace

Result<Document> Head::read(const TreeOrder& order, Duration deadline) {
    // Nobody who comes after a refresh gets what was read before it.
    std::string name = MetaWriter()
                           .number(static_cast<std::uint8_t>(order.kind))
                           .number(order.part)
                           .number(order.settled_ns)
                           .number(files_.tree_catalog().epoch())
                           .text(order.root)
                           .text(order.path)
                           .take();
    auto read = [&]() -> Result<Document> {
        switch (order.kind) {
            case TreeOrder::Kind::File:
                return file(order, deadline);
            case TreeOrder::Kind::Listing:
                return listing(order);
            case TreeOrder::Kind::Part:
                return part(order, deadline);
        }
        return Status(Code::BadInput, "unknown kind of document");
    };
    return reads_.run(name, deadline, read)
        .value_or(Status(Code::NotCached, "the shared file system did not deliver it in time"));
}

FileOrder Head::as_file(const TreeOrder& order, std::uint64_t largest) const {
    return {.root = order.root,
            .path = order.path,
            .tier = tier_,
            .copies = 0,
            .largest = largest,
            .settled_ns = order.settled_ns,
            .stands_in = true};
}

Result<Document> Head::file(const TreeOrder& order, Duration deadline) {
    auto epoch = files_.tree_catalog().epoch();
    BootTime looked = BootClock::now();
    auto copy = files_.fetch(as_file(order, largest_), deadline);
    if (!copy.ok()) return copy.take_status();
    Document whole{.attributes = copy->attributes,
                   .looked = looked,
                   .keep = settled(copy->attributes, order.settled_ns),
                   .size = copy->attributes.size};
    if (copy->growing) {
        if (Status status = wait_until_whole(*copy->growing, deadline); !status.ok()) return status;
        whole.file = copy->growing->file().file;
        whole.on_disk = copy->growing->file().may_block;
        whole.crc = copy->growing->progress().crc;
        ++counters_.files;
        counters_.bytes += whole.size;
    } else {
        whole.crc = copy->object->crc;
        whole.on_disk = copy->object->tier == Tier::Disk;
        whole.file = std::make_shared<const Fd>(std::move(copy->file));
    }
    // There may have been no room.
    whole.keep &= store_.peek(file_key(order.path, whole.attributes.identity())) != nullptr;
    if (whole.keep) files_.tree_catalog().learn(order.path, whole.attributes, epoch, looked);
    return whole;
}

Result<Document> Head::listing(const TreeOrder& order) {
    auto epoch = files_.tree_catalog().epoch();
    BootTime looked = BootClock::now();
    auto listed = list_directory(order.root, order.path);
    if (!listed.ok()) return listed.take_status();
    if (order.path != order.root && !listed->directory.direct)
        if (Status changed = files_.check_way(order.root, order.path); !changed.ok())
            return changed;
    ++counters_.listings;
    bool keep = settled(listed->directory, order.settled_ns) &&
                std::ranges::all_of(listed->entries, [&](const Entry& entry) {
                    return settled(entry.attributes, order.settled_ns);
                });
    std::string bytes = listed->encode();
    std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
    auto intake = Intake::open(store_, tree_key(order, listed->directory.identity(), crc),
                               bytes.size(), tier_, keep);
    if (!intake.ok()) return files_.left_to_source(intake.status());
    if (Status status = intake->append(bytes.data(), bytes.size()); !status.ok())
        return Status(Code::NotCached, status.message());
    auto whole = std::move(*intake).finish(
        {.attributes = listed->directory, .looked = looked, .keep = keep});
    if (whole.ok() && keep)
        files_.tree_catalog().learn(order.path, whole->attributes, epoch, looked, crc);
    return whole;
}

Result<Head::SourcePtr> Head::source(const TreeOrder& order, Duration deadline) {
    std::string name = MetaWriter().text(order.root).text(order.path).take();
    // Nobody who comes after a refresh gets what was opened before it.
    std::string flight = name + MetaWriter().number(files_.tree_catalog().epoch()).take();
    return opens_.run(flight, deadline, [&] { return source_here(name, order); })
        .value_or(Status(Code::NotCached, "the shared file system did not open it in time"));
}

Result<Head::SourcePtr> Head::source_here(const std::string& name, const TreeOrder& order) {
    auto named = [&](const auto& entry) { return entry.first == name; };
    {
        Lock lock(mutex_);
        auto found = std::ranges::find_if(sources_, named);
        if (found != sources_.end() && found->second->epoch == files_.tree_catalog().epoch() &&
            BootClock::now() - found->second->looked < ttl_.load()) {
            sources_.splice(sources_.begin(), sources_, found);
            return found->second;
        }
    }
    auto made = open_source(order);
    if (!made.ok()) return made;
    Lock lock(mutex_);
    std::erase_if(sources_, named);
    sources_.emplace_front(name, *made);
    if (sources_.size() > kMostSources) sources_.pop_back();
    return made;
}

Result<Head::SourcePtr> Head::open_source(const TreeOrder& order) {
    auto epoch = files_.tree_catalog().epoch();
    BootTime looked = BootClock::now();
    auto place = files_.current(as_file(order, ~std::uint64_t{0}));
    if (!place.ok()) return place.take_status();
    // Without room for its parts, the node that asks opens it: that is once, not twice.
    if (Status full = store_.room_for_file(tier_, std::min(place->attributes.size, kPartBytes));
        !full.ok())
        return files_.left_to_source(full);
    auto opened = open_place(*place);
    if (!opened.ok()) return opened.take_status();
    return std::make_shared<const Source>(
        Source{place->attributes, std::move(*opened), looked, epoch});
}

Result<Document> Head::part(const TreeOrder& order, Duration deadline) {
    std::string name = MetaWriter().text(order.root).text(order.path).take();
    auto found = source(order, deadline);
    if (!found.ok()) return found.take_status();
    const Source& from = **found;
    std::uint64_t start = order.part * kPartBytes, size = from.attributes.size;
    if (start >= size && order.part != 0)
        return Status(Code::BadInput, order.path + " has no part " + std::to_string(order.part));
    std::uint64_t length = std::min(size - start, kPartBytes);
    bool keep = settled(from.attributes, order.settled_ns);
    auto intake =
        Intake::open(store_, tree_key(order, from.attributes.identity(), 0), length, tier_, keep);
    if (!intake.ok()) return files_.left_to_source(intake.status());
    Scratch piece(std::min<std::uint64_t>(kPiece, length));
    for (std::uint64_t at = 0; at < length;) {
        auto got =
            ::pread(from.file.get(), piece.data(), std::min<std::uint64_t>(kPiece, length - at),
                    static_cast<off_t>(start + at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return Status(Code::NotCached, order.path + " cannot be read to its end");
        if (Status status = intake->append(piece.data(), static_cast<std::size_t>(got));
            !status.ok())
            return Status(Code::NotCached, status.message());
        at += static_cast<std::uint64_t>(got);
    }
    // Parts of one file must be of one version; only this tells which one they are of.
    struct stat now{};
    if (::fstat(from.file.get(), &now) != 0 ||
        Attributes::of(now).identity() != from.attributes.identity()) {
        Lock lock(mutex_);
        std::erase_if(sources_, [&](const auto& entry) { return entry.first == name; });
        return Status(Code::NotCached, order.path + " changed while it was read");
    }
    ++counters_.parts;
    counters_.bytes += length;
    auto whole = std::move(*intake).finish(
        {.attributes = from.attributes, .looked = from.looked, .keep = keep});
    if (whole.ok() && keep)
        files_.tree_catalog().learn(order.path, whole->attributes, from.epoch, from.looked);
    return whole;
}

}  // namespace holdfast
