#include "files/table.hpp"

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

#include "base/fd.hpp"
#include "preload/table.h"

namespace holdfast {

static_assert(sizeof(hf_entry) == 1024 && offsetof(hf_table, entries) == 4096);

Result<std::unique_ptr<AttributeTable>> AttributeTable::open(const std::string& path) {
    auto failure = [&](int error) {
        return system_failure(Code::HoldfastError, "cannot make the attribute table " + path,
                              error);
    };
    Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file || ::ftruncate(file.get(), sizeof(hf_table)) != 0) return failure(errno);
    void* at = ::mmap(nullptr, sizeof(hf_table), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) return failure(errno);
    auto* table = static_cast<hf_table*>(at);
    std::unique_ptr<AttributeTable> opened(new AttributeTable(table));
    std::atomic_ref(table->magic).store(HF_TABLE_MAGIC, std::memory_order_release);
    return opened;
}

AttributeTable::~AttributeTable() {
    ::munmap(table_, sizeof *table_);
}

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
    std::lock_guard lock(mutex_);
    hf_entry& entry = place_for(seen.device, seen.inode);
    std::atomic_ref sequence(entry.sequence);
    std::uint32_t next = (sequence.load(std::memory_order_relaxed) | 1) + 1;
    sequence.store(next - 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    entry.root_bytes = static_cast<std::uint32_t>(order.root.size());
    entry.stamp = ++table_->stamp;
    entry.copy_device = seen.device;
    entry.copy_inode = seen.inode;
    entry.copy_mtime_ns = seen.mtime_ns;
    entry.size = original.size;
    entry.mode = original.mode;
    entry.uid = original.uid;
    entry.gid = original.gid;
    entry.nlink = original.nlink;
    entry.inode = original.inode;
    entry.device = original.device;
    entry.blocks = original.blocks;
    entry.atime_ns = original.atime_ns;
    entry.mtime_ns = original.mtime_ns;
    entry.ctime_ns = original.ctime_ns;
    std::memcpy(entry.path, order.path.c_str(), order.path.size() + 1);
    sequence.store(next == 0 ? 2 : next, std::memory_order_release);
}

}  // namespace holdfast
