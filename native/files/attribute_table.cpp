#include "files/attribute_table.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/attribute_table.h"
#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/thread.hpp"

namespace holdfast {

static_assert(sizeof(hf_entry) == 1024 && sizeof(hf_name) == 256);
static_assert(offsetof(hf_table, names) == 4096);

namespace {

constexpr auto kBetweenBeats = std::chrono::milliseconds(100);
// Nobody opened a file for so long: the heart rests, so that an idle agent sleeps.
constexpr auto kIdle = std::chrono::seconds(10);

std::uint64_t nanoseconds(Duration time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

Status no_room(const std::string& path) {
    auto megabytes = std::to_string((sizeof(hf_table) + 999'999) / 1'000'000);
    return Status(Code::HoldfastError, "no room for the attribute table " + path +
                                           ", which needs " + megabytes +
                                           " MB; make room there, or set another run_dir");
}

// Writes an entry whole, or as far as nobody believes it.
template <typename Entry, typename Write>
void rewrite(Entry& entry, Write write) {
    std::atomic_ref sequence(entry.sequence);
    std::uint32_t next = (sequence.load(std::memory_order_relaxed) | 1) + 1;
    sequence.store(next - 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    write();
    sequence.store(next == 0 ? 2 : next, std::memory_order_release);
}

}  // namespace

Result<std::unique_ptr<AttributeTable>> AttributeTable::open(const std::string& path,
                                                             std::function<void()> was_away) {
    auto failure = [&](int error) {
        return system_failure(Code::HoldfastError, "cannot create the attribute table " + path,
                              error);
    };
    Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file || ::ftruncate(file.get(), sizeof(hf_table)) != 0) return failure(errno);
    // Whoever touches a page of a map that finds no room any more is killed, we and every program.
    int error;
    do error = ::posix_fallocate(file.get(), 0, sizeof(hf_table));
    while (error == EINTR);
    if (error == ENOSPC || error == EDQUOT) return no_room(path);
    if (error != 0) return failure(error);
    void* at = ::mmap(nullptr, sizeof(hf_table), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) return failure(errno);
    auto* table = static_cast<hf_table*>(at);
    std::unique_ptr<AttributeTable> opened(new AttributeTable(table, std::move(was_away)));
    std::atomic_ref(table->magic).store(HF_TABLE_MAGIC, std::memory_order_release);
    return opened;
}

AttributeTable::AttributeTable(hf_table* table, std::function<void()> was_away)
    : table_(table), roots_(HF_TABLE_ROOTS), was_away_(std::move(was_away)) {
    advance_epoch();  // names of an agent before us
    for (auto& root : table_->roots) rewrite(root, [&] { root.hash = 0; });
    std::atomic_ref(table_->fresh_ns).store(nanoseconds(kFresh));
    std::atomic_ref(table_->beat_ns).store(0);
    heart_ = start_thread([this] { beat(); });
}

void AttributeTable::beat() {
    Lock lock(mutex_);
    for (BootTime last = BootClock::now(); !stopping_; wake_.wait_for(lock, kBetweenBeats)) {
        if (!resting_ && Clock::now() - used_ >= kIdle) {
            advance_epoch();
            std::atomic_ref(table_->beat_ns).store(0);
            resting_ = true;
        }
        if (resting_) {
            wake_.wait(lock, [&]() REQUIRES(mutex_) { return stopping_ || !resting_; });
            last = BootClock::now();
        }
        BootTime now = BootClock::now();
        if (now - last >= kFresh) {  // we were stopped or slept, and perhaps not told of changes
            advance_epoch();
            was_away_();
        }
        last = now;
        std::atomic_ref(table_->beat_ns).store(nanoseconds(now.time_since_epoch()));
    }
    std::atomic_ref(table_->beat_ns).store(0);
}

std::uint64_t AttributeTable::cache_epoch() const {
    return std::atomic_ref(table_->cache_epoch).load();
}

void AttributeTable::wake_heart() {
    used_ = Clock::now();
    if (!resting_) return;
    resting_ = false;
    wake_.notify_one();
}

void AttributeTable::keep_beating() {
    Lock lock(mutex_);
    wake_heart();
}

void AttributeTable::advance_epoch() {
    ++std::atomic_ref(table_->cache_epoch);
}

AttributeTable::~AttributeTable() {
    {
        Lock lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
    }
    heart_.join();
    ::munmap(table_, sizeof *table_);
}

// ---- roots -----------------------------------------------------------------------------------

// Those of the table and what is known of them here have the same numbers.
std::function<void()> AttributeTable::look_at(const std::string& root, bool if_untold) {
    std::uint64_t hash = hf_hash(root.data(), root.size());
    Lock lock(mutex_);
    std::span all(table_->roots);
    auto found = std::ranges::find(all, hash, &hf_seen_root::hash);
    SeenRoot* seen = nullptr;
    if (found != all.end()) {
        seen = &roots_[static_cast<std::size_t>(found - all.begin())];
        if (if_untold || seen->cache_epoch == cache_epoch() || !seen->looking.expired()) return {};
    }
    // Whatever becomes of who is to do it: it is done, or given up.
    auto token = std::make_shared<char>();
    if (seen) seen->looking = token;
    return [this, root, token, cache_epoch = cache_epoch()] { record_root(root, cache_epoch); };
}

void AttributeTable::record_root(const std::string& root, std::uint64_t cache_epoch) {
    struct stat info{};
    bool there = ::stat(root.c_str(), &info) == 0;
    std::uint64_t hash = hf_hash(root.data(), root.size());
    Lock lock(mutex_);
    std::span all(table_->roots);
    auto found = std::ranges::find(all, hash, &hf_seen_root::hash);
    if (found == all.end()) {
        if (!there) return;
        found = all.begin() + static_cast<std::ptrdiff_t>(next_root_++ % all.size());
    }
    roots_[static_cast<std::size_t>(found - all.begin())] = {cache_epoch, {}};
    // Whoever stood aside looks again when this is written.
    if (there && found->hash == hash && found->device == info.st_dev && found->inode == info.st_ino)
        return;
    rewrite(*found, [&] {
        found->hash = there ? hash : 0;
        found->device = info.st_dev;
        found->inode = info.st_ino;
    });
}

// ---- entries ---------------------------------------------------------------------------------

// That of the same copy, else one that is free, else the oldest.
hf_entry& AttributeTable::place_for(std::uint64_t device, std::uint64_t inode) {
    std::span set(table_->entries + hf_table_first(device, inode), HF_TABLE_WAYS);
    for (auto& entry : set)
        if (entry.copy_inode == inode && entry.copy_device == device) return entry;
    return *std::ranges::min_element(set, {}, &hf_entry::stamp);
}

void AttributeTable::record(const FileOrder& order, const Attributes& original, int descriptor) {
    struct stat copy{};
    if (order.path.size() >= HF_TABLE_PATH || ::fstat(descriptor, &copy) != 0) return;
    Attributes seen = Attributes::of(copy);
    Lock lock(mutex_);
    hf_entry& entry = place_for(seen.device, seen.inode);
    rewrite(entry, [&] {
        entry.root_bytes = static_cast<std::uint32_t>(order.root.size());
        entry.stamp = ++table_->stamp;
        entry.copy_device = seen.device;
        entry.copy_inode = seen.inode;
        entry.copy_mtime_ns = seen.mtime_ns;
        entry.size = original.size;
        entry.mode = original.mode;
        entry.uid = original.uid;
        entry.gid = original.gid;
        entry.direct = original.direct;
        entry.nlink = original.nlink;
        entry.inode = original.inode;
        entry.device = original.device;
        entry.blocks = original.blocks;
        entry.atime_ns = original.atime_ns;
        entry.mtime_ns = original.mtime_ns;
        entry.ctime_ns = original.ctime_ns;
        std::memcpy(entry.path, order.path.c_str(), order.path.size() + 1);
    });
}

void AttributeTable::record_name(const FileOrder& order, const std::string& file, int descriptor,
                                 std::uint64_t cache_epoch) {
    struct stat copy{};
    if (file.size() >= sizeof(hf_name::file) || ::fstat(descriptor, &copy) != 0) return;
    std::uint64_t hash = hf_hash(order.path.data(), order.path.size());
    Lock lock(mutex_);
    wake_heart();
    std::span set(table_->names + hf_name_first(hash), HF_TABLE_WAYS);
    auto same = std::ranges::find(set, hash, &hf_name::hash);
    auto& name = same != set.end() ? *same : *std::ranges::min_element(set, {}, &hf_name::stamp);
    rewrite(name, [&] {
        name.copies = order.copies;
        name.hash = hash;
        name.cache_epoch = cache_epoch;
        name.stamp = ++table_->stamp;
        name.copy_device = copy.st_dev;
        name.copy_inode = copy.st_ino;
        std::memcpy(name.file, file.c_str(), file.size() + 1);
    });
}

}  // namespace holdfast
