#include "mount/mount.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "base/thread.hpp"

namespace holdfast::mount {
namespace {

constexpr std::uint64_t kListingRoom = 64 << 20;
// The kernel holds what was read; descriptors are for what it has still to read, and for versions
// that are open and that no other place has any more.
constexpr std::uint64_t kMostOpened = 1024;
// A copy that the agent keeps no longer takes memory for as long as we hold it. This is enough for
// 128 programs that each read a large file of their own. One that comes whole weighs no more than a
// part: to fetch it again for each read would cost more than the memory.
constexpr std::uint64_t kOpenedRoom = 128 * kPartBytes;
constexpr Duration kIdle = std::chrono::seconds(60);
constexpr double kForever = 365.0 * 86400;

// What a descriptor weighs at least, so that there are not too many of them either.
std::uint64_t least_weight() {
    rlimit limit{};
    std::uint64_t most = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 64;
    return kOpenedRoom / std::clamp<std::uint64_t>(most, 16, kMostOpened);
}

std::uint64_t weight_of(const Listing& listing) {
    std::uint64_t weight = 256;
    for (const Entry& entry : listing.entries)
        weight += sizeof entry + entry.name.size() + entry.target.size();
    return weight;
}

}  // namespace

Mount::Mount(const Settings& given, const Guard& guarding)
    : settings(given),
      guard(guarding),
      inodes(given),
      usage(given),
      agent_(given),
      listings_(kListingRoom, kIdle),
      opened_(kOpenedRoom, kIdle),
      least_weight_(least_weight()),
      timeout_(given.ttl > Duration{} ? std::chrono::duration<double>(given.ttl).count()
                                      : kForever) {
    start_thread([this] { invalidate_doubted(); }).detach();
    start_thread([this] { sweep(); }).detach();
}

std::string Mount::original_path(const MountInode& inode) const {
    return inode.path == inode.root->path ? inode.root->alias : inode.path;
}

// ---- listings --------------------------------------------------------------------------------

KnownListingPtr Mount::listing(const MountInodePtr& inode, int& error) {
    auto fetch = [&](std::uint64_t& weight) { return fetch_listing(*inode, weight, error); };
    KnownListingPtr known = listings_.get(inode->number, fetch);
    if (!known || settings.ttl == Duration{} || BootClock::now() - known->since < settings.ttl)
        return known;
    listings_.drop(inode->number);
    return listings_.get(inode->number, fetch);
}

KnownListingPtr Mount::fetch_listing(MountInode& inode, std::uint64_t& weight, int& error) {
    auto number = inode.attributes().inode;
    auto refreshes = cache_epoch.load();
    BootTime now = BootClock::now();
    if (auto passed = inode.local ? std::nullopt : agent_.listing(*inode.root, inode.path)) {
        struct stat info{};
        bool there = ::fstat(passed->fd.get(), &info) == 0;
        auto listing =
            read_listing(passed->fd.get(), there ? static_cast<std::size_t>(info.st_size) : 0);
        if (listing.ok() && listing->directory.inode == number) {
            ++counters.listings;
            inode.set(listing->directory, refreshes);
            weight = weight_of(*listing);
            return std::make_shared<KnownListing>(KnownListing{std::move(*listing), now});
        }
    }
    auto own = list_original(original_path(inode), number, guard);
    error = own.error;
    if (error == ESTALE || error == ENOENT) doubt(inode);
    if (error != 0) return nullptr;
    ++counters.listings_read;
    inode.set(own.value.directory, refreshes);
    weight = weight_of(own.value);
    return std::make_shared<KnownListing>(KnownListing{std::move(own.value), now});
}

void Mount::renew(const MountInodePtr& inode) {
    auto refreshes = cache_epoch.load();
    Attributes before = inode->attributes();
    int error = 0;
    if (!S_ISDIR(before.mode) || listing(inode, error)) return;
    auto seen = look_at_original(original_path(*inode), guard);  // it may not be listed
    if (seen.error == 0 && seen.value.inode == before.inode) inode->set(seen.value, refreshes);
}

// ---- names -----------------------------------------------------------------------------------

MountInodePtr Mount::inode_of(const MountInode& above, const Listing& listing, const Entry& entry) {
    std::string path = above.path + "/" + entry.name;
    bool elsewhere = entry.attributes.device != listing.directory.device;
    if (entry.attributes.mode == 0 || elsewhere || is_doubted(path)) return nullptr;
    MountInodes::Seen seen{std::move(path), entry.attributes, {}, above.local};
    if (S_ISLNK(seen.attributes.mode)) {
        seen.target = settings.shown(entry.target);
        seen.attributes.size = seen.target.size();
    }
    return inodes.tell(above, std::move(seen));
}

OriginalResult<MountInodePtr> Mount::look_up(const MountInodePtr& above, const std::string& name) {
    if (name.size() > NAME_MAX) return {nullptr, ENAMETOOLONG};
    std::string path = above->path + "/" + name;
    if (above->is_made_up()) {
        MountInodePtr inode = inodes.current(path);
        if (inode && inode->is_made_up()) return {inode, 0};
        const Root* root = settings.root_of(path);
        if (root == nullptr) return {nullptr, ENOENT};
        if (auto passed = agent_.listing(*root, path))
            return {inodes.tell(*above, {path, passed->attributes, {}, false}), 0};
        auto seen = look_at_original(root->alias, guard);
        if (seen.error != 0) return {nullptr, seen.error};
        return {inodes.tell(*above, {path, seen.value, {}, false}), 0};
    }
    int error = 0;
    KnownListingPtr known = listing(above, error);
    if (!known) return {nullptr, error};
    if (is_doubted(path)) return look_up_itself(*above, path, above->local);
    const Entry* entry = known->listing.find(name);
    if (entry == nullptr) return {nullptr, ENOENT};
    if (MountInodePtr inode = inode_of(*above, known->listing, *entry)) return {inode, 0};
    // Another file system begins here, or the one who made the listing could not look.
    return look_up_itself(*above, path, true);
}

OriginalResult<MountInodePtr> Mount::look_up_itself(const MountInode& above,
                                                    const std::string& path, bool local) {
    auto seen = look_at_original(path, guard);
    if (seen.error != 0) return {nullptr, seen.error};
    // What listings say of devices may be another node's.
    auto around = look_at_original(original_path(above), guard);
    bool begins = around.error != 0 || around.value.device != seen.value.device;
    std::string target;
    if (S_ISLNK(seen.value.mode)) {
        auto link = link_of_original(path);
        if (link.error != 0) return {nullptr, link.error};
        target = settings.shown(link.value);
        seen.value.size = target.size();
    }
    return {inodes.tell(above, {path, seen.value, std::move(target), local, begins}), 0};
}

// ---- files -----------------------------------------------------------------------------------

bool Mount::comes_in_parts(const MountInode& inode, std::uint64_t size) const {
    return !inode.local && size > (inode.root->spread ? kWholeBytes : settings.parts_above);
}

OpenedPtr Mount::open(const MountInodePtr& inode, std::uint32_t part, int& error) {
    return opened_.get({inode->number, part}, [&](std::uint64_t& weight) {
        OpenedPtr copy = fetch_file(*inode, part, weight, error);
        // Kept under the part's number as well: nobody asks the agent again for each piece of it.
        return copy || part == kWhole ? copy : open(inode, kWhole, error);
    });
}

OpenedPtr Mount::fetch_file(const MountInode& inode, std::uint32_t part, std::uint64_t& weight,
                            int& error) {
    weight = least_weight_;
    Attributes wanted = inode.attributes();
    bool whole = part == kWhole;
    std::uint64_t begin = whole ? 0 : part * kPartBytes;
    if (!inode.local && whole != comes_in_parts(inode, wanted.size)) {
        auto passed = whole ? agent_.file(*inode.root, inode.path)
                            : agent_.part(*inode.root, inode.path, part);
        std::uint64_t size = whole ? wanted.size : std::min(kPartBytes, wanted.size - begin);
        if (passed && !whole && inode.root->spread) {
            // The copy of this node itself is passed whole.
            if (passed->range == Range{0, wanted.size})
                begin = 0, size = wanted.size;
            else if (passed->range != Range{begin, size})
                passed.reset();
        }
        struct stat info{};
        if (passed && passed->attributes.identity() == wanted.identity() &&
            ::fstat(passed->fd.get(), &info) == 0 &&
            static_cast<std::uint64_t>(info.st_size) == size) {
            ++counters.files;
            weight = std::max(least_weight_, std::min(size, kPartBytes));
            return std::make_shared<Opened>(Opened{std::move(passed->fd), begin, false});
        }
    }
    if (!whole) return nullptr;
    auto own = open_version(original_path(inode), wanted.identity(), guard);
    error = own.error;
    if (error == ESTALE) doubt(inode);
    if (error != 0) return nullptr;
    ++counters.files_read;
    return std::make_shared<Opened>(Opened{std::move(own.value), 0, true});
}

void Mount::sweep() {
    for (;;) {
        std::this_thread::sleep_for(kIdle / 4);
        listings_.sweep(Clock::now());
        opened_.sweep(Clock::now());
    }
}

// ---- what is no longer so --------------------------------------------------------------------

bool Mount::is_doubted(const std::string& path) {
    Lock lock(mutex_);
    return !doubted_.empty() && doubted_.contains(path);
}

void Mount::doubt(const MountInode& inode) {
    ++counters.stale;
    Lock lock(mutex_);
    doubted_.insert(inode.path);
    // Not from here: the kernel may hold, on behalf of whom we answer, what this would wait for.
    to_invalidate_.push_back(inode.path);
    more_doubted_.notify_one();
}

void Mount::invalidate_doubted() {
    for (;;) {
        Lock lock(mutex_);
        more_doubted_.wait(lock, [&]() REQUIRES(mutex_) { return !to_invalidate_.empty(); });
        std::string path = std::move(to_invalidate_.front());
        to_invalidate_.pop_front();
        lock.unlock();
        invalidate(path);
    }
}

void Mount::refresh(const std::string& path) {
    {
        Lock lock(mutex_);
        std::erase_if(doubted_, [&](const auto& one) { return is_at_or_below(one, path); });
    }
    {
        WriteLock all_answered(answering);
        std::string above = path.substr(0, path.rfind('/'));
        auto outdate = [&](const MountInodePtr& inode) {
            listings_.drop(inode->number);
            inode->outdate(cache_epoch + 1);
        };
        if (MountInodePtr inode = inodes.current(above); inode && !inode->is_made_up())
            outdate(inode);
        for (const MountInodePtr& inode : inodes.below(path)) outdate(inode);
        ++cache_epoch;
    }
    invalidate(path);
}

// Names first, then what the kernel holds of directories; a name that is gone from a directory
// takes along what the kernel believes to be missing below it. Where the name is gone already this
// does nothing, so below such a directory the kernel is not let believe it.
void Mount::invalidate(const std::string& path) {
    auto drop_name = [&](std::uint64_t above, const std::string& name) {
        fuse_lowlevel_notify_inval_entry(session_, above, name.c_str(), name.size());
    };
    auto drop_directory = [&](const MountInode& inode) {
        if (S_ISDIR(inode.attributes().mode))
            fuse_lowlevel_notify_inval_inode(session_, inode.number, 0, 0);
    };
    for (const MountInodePtr& inode : inodes.below(path)) {
        drop_directory(*inode);
        drop_name(inode->above, inode->name());
        inode->nameless = true;
    }
    auto slash = path.rfind('/');
    if (MountInodePtr above = inodes.current(path.substr(0, slash))) {
        drop_name(above->number, path.substr(slash + 1));
        drop_directory(*above);
    }
}

}  // namespace holdfast::mount
