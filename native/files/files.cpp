#include "files/files.hpp"

#include <sys/stat.h>

#include <thread>

#include "base/log.hpp"
#include "files/lanes.hpp"
#include "files/resolve.hpp"
#include "rpc/body.hpp"
#include "store/messages.hpp"

namespace holdfast {
namespace {

bool settled(const FileOrder& order, const Attributes& attributes) {
    return settled(attributes, order.settled_ns);
}

bool is_in_parts(const FileOrder& order, std::uint64_t size) {
    return order.part && size > kWholeBytes;
}

// The one path, or what several have in common.
std::string common_directory(const std::vector<std::string>& paths) {
    std::string common = paths.front();
    auto holds = [&](const std::string& path) {
        return path == common || path.starts_with(common == "/" ? common : common + "/");
    };
    for (auto& path : paths)
        while (!holds(path)) common = directory_of(common);
    return common;
}

// Whether no symbolic link is on the way from a path to one at or below it.
bool is_direct(const std::string& above, const std::string& path) {
    if (path == above) return true;
    auto names = names_on_the_way(above, directory_of(path));
    return names.ok() && names->size() == 1;
}

void wait_while_written(Store& store, const std::string& key, Duration deadline) {
    TimePoint end = Clock::now() + deadline;
    while (store.is_being_written(key) && Clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Answer with_attributes(const Attributes& attributes) {
    Answer answer;
    answer.meta = attributes.encode();
    return answer;
}

}  // namespace

Files::Files(Store& store, CurrentPlacement& placement, Incidents& incidents, Pool& pool)
    : store_(store),
      placement_(placement),
      incidents_(incidents),
      fills_(store, pool, lane::kFill) {
    store_.watch(Topic::Path, [this](const std::string& notice) { return path_learnt(notice); });
    store_.watch(Topic::Refresh,
                 [this](const std::string& notice) { return refresh_learnt(notice); });
}

// ---- requests --------------------------------------------------------------------------------

void Files::add_to(Handlers& handlers) {
    handlers.add(Op::Read, [this](Request& request) { return read(request); });
    handlers.add(Op::Attributes, [this](Request& request) { return attributes(request); });
    handlers.add(Op::Warm, [this](Request& request) { return warm(request); });
}

Outcome Files::read(const Request& request) {
    auto order = FileOrder::decode(request.meta);
    if (!order.ok()) return Answer(order.take_status());
    ++(request.local ? counters_.local : counters_.remote);
    auto copy = cached(*order);
    if (copy && copy->object->tier == Tier::Memory && open(*copy))
        return serve(*order, std::move(*copy));
    // Those on the disk are not held up by misses.
    bool on_disk = copy && copy->object->tier == Tier::Disk;
    return Blocking{
        on_disk ? lane::kDisk : lane::kOpen, [this, order = *order](Body& body) {
            Wait wait(incidents_, "read", order.path, "", body.deadline(), body.arrived());
            auto stored = cached(order);
            Answer answer = stored && open(*stored) ? serve(order, std::move(*stored))
                                                    : fetch_and_serve(order, body.deadline());
            wait.ended(answer.status);
            return answer;
        }};
}

Outcome Files::attributes(const Request& request) {
    auto order = FileOrder::decode(request.meta);
    if (!order.ok()) return Answer(order.take_status());
    distrust_if_away();
    auto known = catalog_.find(order->path);
    if (known && !order->validate && known->attributes.size <= limit(*order) &&
        !invalidated_.contains(order->path) && !invalidated_.contains(known->attributes.inode))
        return with_attributes(known->attributes);
    return Blocking{lane::kOpen, [this, order = *order](Body&) -> Answer {
                        auto epoch = catalog_.epoch();
                        auto place = current(order);
                        if (!place.ok()) return counted(place.take_status());
                        if (settled(order, place->attributes))
                            catalog_.learn(order.path, place->attributes, epoch);
                        return with_attributes(place->attributes);
                    }};
}

Outcome Files::warm(const Request& request) {
    auto order = FileOrder::decode(request.meta);
    if (!order.ok()) return Answer(order.take_status());
    if (auto copy = cached(*order)) return with_attributes(copy->attributes);
    return Blocking{lane::kWarm, [this, order = *order](Body& body) -> Answer {
                        auto copy = fetch(order, body.deadline(), Young::PassedOver);
                        if (!copy.ok()) return counted(copy.take_status());
                        if (copy->growing)
                            if (Status status = wait_until_whole(*copy->growing, body.deadline());
                                !status.ok())
                                return counted(std::move(status));
                        if (!store_.peek(file_key(order.path, copy->attributes.identity())))
                            return counted(Status(Code::NotCached, order.path + " was not kept"));
                        return with_attributes(copy->attributes);
                    }};
}

Answer Files::counted(Status failure) {
    if (failure.code() == Code::NotCached) ++counters_.not_cached;
    return failure;
}

Answer Files::fetch_and_serve(const FileOrder& order, Duration deadline) {
    auto copy = fetch(order, deadline);
    if (!copy.ok()) return counted(copy.take_status());
    if (!copy->growing || !is_in_parts(order, copy->attributes.size))
        return serve(order, std::move(*copy));
    // Those who wait for us must hear us before their own deadline ends.
    auto piece = part(order, *copy, deadline * 3 / 4);
    if (!piece.ok()) return counted(piece.take_status());
    Answer answer = with_attributes(copy->attributes);
    answer.body_crc = piece->crc;
    answer.body = std::move(piece->slice);
    return answer;
}

Answer Files::serve(const FileOrder& order, FileCopy copy) {
    Answer answer = with_attributes(copy.attributes);
    if (copy.growing) {
        answer.body = std::shared_ptr<Growing>(std::move(copy.growing));
        return answer;
    }
    auto range = order.range(copy.object->size);
    if (!range.ok()) return counted(range.take_status());
    ++counters_.hits;
    answer.body_crc = range->size == copy.object->size
                          ? copy.object->crc
                          : crc_of(copy.object->chunks, copy.object->size, *range);
    FileSlice slice{std::make_shared<const Fd>(std::move(copy.file)), range->begin, range->size,
                    copy.object->tier == Tier::Disk};
    if (slice.may_block)
        slice.unreadable = [this, object = copy.object](int error) {
            store_.unreadable(object, error);
        };
    answer.body = std::move(slice);
    return answer;
}

// ---- changes ---------------------------------------------------------------------------------

std::vector<std::string> Files::invalidate(const std::string& path) {
    struct stat now{};
    std::vector<std::string> notices;
    bool is_file = ::stat(path.c_str(), &now) == 0 && S_ISREG(now.st_mode);
    bool is_way = is_way_to_others(path);
    // Other names by which it is not out yet, if the path is: hard links, and what a link leads to.
    bool has_names = is_file && (is_way || now.st_nlink > 1);
    auto cover = invalidated_.cover(path);
    if (cover && !has_names && is_direct(cover->path, path)) return {cover->notice};
    std::string whole = path;
    while (whole != "/" && invalidated_.crowded(directory_of(whole))) whole = directory_of(whole);
    if (whole != path) {
        log_warning("more than " + std::to_string(InvalidatedPaths::kMostWithin) + " names in " +
                    whole +
                    " were changed: the directory is read from the shared file system until it is "
                    "refreshed");
        notices.push_back(invalidated_.invalidation(whole, InvalidatedPaths::kWay));
    }
    if (has_names || (whole == path && (is_file || !is_way)))
        notices.push_back(invalidated_.invalidation(path, is_file ? now.st_ino : 0));
    if (is_way && whole == path)
        notices.push_back(invalidated_.invalidation(path, InvalidatedPaths::kWay));
    learn(notices);
    return notices;
}

std::string Files::hear_invalidation(const std::string& notice) {
    learn({notice});
    std::string again = invalidated_.repeated(notice);
    if (!again.empty()) learn({again});
    return again;
}

void Files::learn(const std::vector<std::string>& notices) {
    std::vector<Notice> all;
    for (auto& text : notices) all.push_back({Topic::Path, text});
    store_.learn(all);
}

std::vector<std::string> Files::refresh_learnt(const std::string& notice) {
    auto refreshed = RefreshNotice::decode(notice);
    if (!refreshed) return {notice};
    heard_of(refreshed->number);
    if (watch_ && refreshed->number != told_) watch_(refreshed->path);
    return {};
}

std::vector<std::string> Files::path_learnt(const std::string& notice) {
    auto learnt = invalidated_.learn(notice);
    switch (learnt.news) {
        case InvalidatedPaths::News::Nothing:
            break;
        case InvalidatedPaths::News::Invalidated:
            catalog_.advance();
            tree_catalog_.advance();
            break;
        case InvalidatedPaths::News::WayInvalidated:
            catalog_.distrust_links();
            tree_catalog_.distrust_links();
            break;
        case InvalidatedPaths::News::Returned:  // with other names of the same files, whichever
            distrust();
    }
    return std::move(learnt.forgotten);
}

void Files::heard_of(std::uint64_t number) {
    if (refreshes_.knows(number)) return;
    refreshes_.tell(number, Clock::now());
    distrust();
    refreshes_.done(number);
}

std::size_t Files::refresh(const std::vector<std::string>& paths, std::uint64_t number) {
    if (paths.empty()) return 0;
    refreshes_.tell(number, Clock::now());
    std::size_t forgotten = 0;
    for (auto& path : paths) forgotten += refresh(path);
    refreshes_.done(number);
    told_ = number;
    RefreshNotice notice{common_directory(paths), number};
    store_.learn({{Topic::Refresh, notice.encode()}});
    return forgotten;
}

std::size_t Files::refresh(const std::string& path) {
    if (std::string notice = invalidated_.readmission(path); !notice.empty()) learn({notice});
    tree_catalog_.refresh(path);
    tree_catalog_.forget(directory_of(path));
    return catalog_.refresh(path);
}

void Files::distrust() {
    catalog_.distrust();
    tree_catalog_.distrust();
}

void Files::hear_for(Duration time) {
    distrust_if_away();
    heard_for_ = time;
    hears_until_ = BootClock::now() + time;
}

void Files::distrust_if_away() {
    BootTime until = hears_until_, now = BootClock::now();
    if (now <= until) return;
    distrust();
    // Only once, though it may take a while until it is said again.
    hears_until_.compare_exchange_strong(until, now + heard_for_.load());
}

// ---- copies ----------------------------------------------------------------------------------

std::optional<FileCopy> Files::cached(const FileOrder& order) {
    if (order.validate || invalidated_.contains(order.path)) return std::nullopt;
    distrust_if_away();
    auto known = catalog_.find(order.path);
    if (!known) return std::nullopt;
    const Attributes& attributes = known->attributes;
    if (attributes.size > limit(order) || invalidated_.contains(attributes.inode))
        return std::nullopt;
    ObjectPtr object = store_.find(file_key(order.path, attributes.identity()));
    if (object && object->copies < order.copies) object = store_.raise_copies(object, order.copies);
    if (!object) return std::nullopt;
    return FileCopy{attributes, std::move(object), {}, {}};
}

bool Files::open(FileCopy& copy) {
    auto file = store_.open_file(copy.object);
    if (!file.ok()) return false;
    copy.file = std::move(*file);
    return true;
}

// Rule 4 for files: whoever does not own a file reads it only for an owner that failed. Else a
// reader with an old view would have it read once more.
Status Files::fence(const FileOrder& order) const {
    PlacementPtr placement = placement_.get();
    if (order.stands_in || !placement) return {};
    if (placement->owners(file_prefix(order.path), 1).contains(placement_.self())) return {};
    return Status(Code::StaleView, order.path + " has another owner in this agent's view");
}

std::uint64_t Files::limit(const FileOrder& order) {
    return order.largest != 0 ? order.largest : store_.capacity(order.tier) / 4;
}

Result<Place> Files::current(const FileOrder& order) {
    if (invalidated_.contains(order.path))
        return Status(Code::NotCached,
                      order.path + " was changed and has not been refreshed since");
    auto place = resolve(order);
    if (!place.ok()) return place;
    if (invalidated_.contains(place->attributes.inode))
        return Status(Code::NotCached, order.path + " was changed under another name");
    if (!place->attributes.direct)
        if (Status changed = check_way(order.root, order.path); !changed.ok()) return changed;
    if (!S_ISREG(place->attributes.mode))
        return Status(Code::NotCached, order.path + " is not a regular file");
    if (place->attributes.size > limit(order))
        return Status(Code::NotCached,
                      order.path + " has more than " + std::to_string(limit(order)) + " bytes");
    return place;
}

Status Files::check_way(const std::string& root, const std::string& path) {
    if (invalidated_.empty()) return {};
    auto names = names_on_the_way(root, path);
    if (!names.ok()) return names.take_status();
    for (auto& name : *names)
        if (invalidated_.contains(name))
            return Status(Code::NotCached, path + " points to " + name + ", which was changed");
    return {};
}

std::vector<Notice> Files::others(const FileOrder& order, const std::string& key) {
    std::vector<Notice> found;
    for (auto& object : store_.list(file_prefix(order.path), "", 64))
        if (object->key != key && object->key.size() == key.size())
            found.push_back({Topic::Tombstone, object->key});
    return found;
}

Result<FileCopy> Files::validated(const FileOrder& order) {
    Status absent(Code::NotFound, "this node has no copy of " + order.path);
    if (store_.list(file_prefix(order.path), "", 1).empty()) return absent;
    auto epoch = catalog_.epoch();
    auto place = current(order);
    if (!place.ok()) return place.take_status();
    FileCopy copy{place->attributes, {}, {}, {}};
    copy.object = store_.find(file_key(order.path, copy.attributes.identity()));
    if (!copy.object || !open(copy)) return absent;
    catalog_.learn(order.path, copy.attributes, epoch);
    return copy;
}

Result<FileCopy> Files::fetch(const FileOrder& order, Duration deadline, Young young) {
    TimePoint end = Clock::now() + deadline;
    auto copy = fetch_once(order, deadline, young);
    // It was stored, or given up, at this moment.
    if (!copy.ok() && copy.status().code() == Code::Busy)
        copy = fetch_once(order, end - Clock::now(), young);
    if (copy.ok() || copy.status().code() == Code::NotCached ||
        copy.status().code() == Code::StaleView || copy.status().code() == Code::DeadlineMissed)
        return copy;
    // Full, dropped, or the tier fails: whatever it is, the original is still there.
    return left_to_source(copy.status());
}

Status Files::left_to_source(const Status& failure) {
    if (failure.code() == Code::Full) ++counters_.no_room;
    return Status(Code::NotCached, failure.message());
}

Result<FileCopy> Files::fetch_once(const FileOrder& order, Duration deadline, Young young) {
    auto epoch = catalog_.epoch();
    auto place = current(order);
    if (!place.ok()) return place.take_status();
    Attributes attributes = place->attributes;
    std::string key = file_key(order.path, attributes.identity());
    if (auto old = others(order, key); !old.empty()) {
        // A drop is final, so the file is looked at once more: was it really those that went?
        auto again = current(order);
        if (!again.ok()) return again.take_status();
        if (again->attributes.identity() != attributes.identity())
            return Status(Code::Busy, order.path + " is being modified; try again");
        ++counters_.changed;
        store_.learn(old);
    }
    if (ObjectPtr object = store_.find(key)) {
        FileCopy copy{attributes, store_.raise_copies(object, order.copies), {}, {}};
        if (copy.object && open(copy)) {
            catalog_.learn(order.path, attributes, epoch);
            return copy;
        }
    }
    if (Status gone = store_.absent(key); gone.code() == Code::Dropped) return gone;
    if (Status stale = fence(order); !stale.ok()) return stale;
    bool keep = settled(order, attributes);
    // Each part of one that is not kept would have it read once more.
    bool in_parts = is_in_parts(order, attributes.size);
    if (!keep && (young == Young::PassedOver || in_parts))
        return Status(Code::NotCached, order.path + " changed a moment ago");
    auto kept = [this, path = order.path, attributes, epoch] {
        catalog_.learn(path, attributes, epoch);
    };
    auto growing = fills_.join(
        {key, std::move(*place), order.tier, order.copies, keep, std::move(kept), in_parts},
        deadline);
    if (!growing.ok()) {
        // If it is not a fill that writes it, the file is just coming down a tree: while a view
        // spreads, a node may be asked to stand in for a head that it asks itself.
        if (growing.status().code() == Code::Busy) wait_while_written(store_, key, deadline);
        return growing.take_status();
    }
    if (!*growing) return Status(Code::Busy, order.path + " was just stored; try again");
    return FileCopy{attributes, {}, {}, std::move(*growing)};
}

Result<FilePiece> Files::part(const FileOrder& order, const FileCopy& copy, Duration deadline) {
    auto range = order.range(copy.attributes.size);
    if (!range.ok()) return range.take_status();
    auto crc = copy.growing->wait_for(*range, deadline);
    if (!crc.ok()) return crc.take_status();
    // Parts of one file must be of one version; whether these bytes are, only a look after they
    // were read can tell.
    auto now = current(order);
    if (!now.ok()) return now.take_status();
    if (now->attributes.identity() != copy.attributes.identity() ||
        now->attributes.device != copy.attributes.device)
        return Status(Code::NotCached, order.path + " changed while it was read");
    FilePiece piece{copy.growing->file(), *crc};
    piece.slice.offset = range->begin;
    piece.slice.size = range->size;
    return piece;
}

void verify_copy(ConnectionPool& pool, const std::string& address, const FileOrder& order,
                 const std::string& meta, Duration deadline) {
    auto attributes = Attributes::decode(meta);
    if (!attributes.ok()) return;
    KeyMessage message{file_key(order.path, attributes->identity())};
    (void)pool.ask(address, {.op = Op::Verify, .meta = message.encode()}, deadline);
}

}  // namespace holdfast
