// Directories, read from their listings. The kernel keeps what it was told, so nothing is held
// open; a position is the place of an entry in the listing.
#include <vector>

#include "mount/mount.hpp"

namespace holdfast::mount {
namespace {

// For an entry that nobody could look at: none is not an answer.
constexpr std::uint64_t kUnknown = 0xffff'ffffu;

class Filling {
  public:
    Filling(fuse_req_t request, Mount& mount, std::size_t size, bool plus)
        : request_(request), mount_(mount), buffer_(size), plus_(plus) {}

    // False if there is no room left. `inode` was told to the kernel, if this succeeds.
    bool add(const char* name, const struct stat& info, off_t next, const MountInodePtr& inode) {
        std::size_t room = buffer_.size() - used_, needed = 0;
        char* at = buffer_.data() + used_;
        if (plus_) {
            fuse_entry_param entry{};
            if (inode)
                entry = entry_of(mount_, *inode);
            else
                entry.attr = info;
            needed = fuse_add_direntry_plus(request_, at, room, name, &entry, next);
        } else {
            needed = fuse_add_direntry(request_, at, room, name, &info, next);
        }
        bool fits = needed <= room;
        if (fits) {
            used_ += needed;
            if (inode) told_.push_back(inode->number);
        } else if (inode) {
            mount_.inodes.forget(inode->number, 1);
        }
        return fits;
    }

    void answer() {
        if (fuse_reply_buf(request_, buffer_.data(), used_) != 0) take_back();
    }
    void take_back() {
        for (auto number : told_) mount_.inodes.forget(number, 1);
    }

  private:
    fuse_req_t request_;
    Mount& mount_;
    std::vector<char> buffer_;
    const bool plus_;
    std::size_t used_ = 0;
    std::vector<std::uint64_t> told_;
};

struct stat brief(std::uint64_t inode, std::uint32_t mode) {
    struct stat info{};
    info.st_ino = inode;
    info.st_mode = mode;
    return info;
}

// The two entries that every directory has; false if there is no room left.
bool add_dots(Mount& mount, const MountInodePtr& inode, off_t offset, Filling& into) {
    MountInodePtr above = mount.inodes.find(inode->above);
    auto own = brief(inode->shown_inode(), S_IFDIR);
    auto upper = brief((above ? above : inode)->shown_inode(), S_IFDIR);
    return (offset > 0 || into.add(".", own, 1, nullptr)) &&
           (offset > 1 || into.add("..", upper, 2, nullptr));
}

void fill(Mount& mount, const MountInodePtr& inode, const Listing& listing, off_t offset, bool plus,
          Filling& into) {
    for (auto i = static_cast<std::size_t>(std::max<off_t>(offset - 2, 0));
         i < listing.entries.size(); ++i) {
        const Entry& entry = listing.entries[i];
        MountInodePtr told = plus ? mount.inode_of(*inode, listing, entry) : nullptr;
        std::uint64_t shown = kUnknown;
        if (!told && entry.attributes.mode != 0) {
            bool begins = entry.attributes.device != listing.directory.device;
            auto space = mount.inodes.space_of(*inode, inode->path + "/" + entry.name, begins);
            shown = number_in(space, entry.attributes.inode);
        }
        auto info = brief(shown, entry.attributes.mode);
        if (!into.add(entry.name.c_str(), info, static_cast<off_t>(i) + 3, told)) return;
    }
}

void fill_made_up(Mount& mount, const MountInodePtr& inode, off_t offset, Filling& into) {
    auto names = mount.inodes.children(*inode);
    for (auto i = static_cast<std::size_t>(std::max<off_t>(offset - 2, 0)); i < names.size(); ++i) {
        MountInodePtr child = mount.inodes.current(inode->path + "/" + names[i]);
        auto info = brief(child ? child->shown_inode() : kUnknown, S_IFDIR);
        if (!into.add(names[i].c_str(), info, static_cast<off_t>(i) + 3, nullptr)) return;
    }
}

void list(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset, bool plus) {
    Mount& mount = mount_of(request);
    MountInodePtr inode = mount.inodes.find(number);
    if (!inode) {
        fuse_reply_err(request, ESTALE);
        return;
    }
    for (;;) {
        auto cache_epoch = mount.cache_epoch.load();
        int error = 0;
        KnownListingPtr known;
        if (!inode->is_made_up()) {
            known = mount.listing(inode, error);
            if (!known) {
                fuse_reply_err(request, error);
                return;
            }
        }
        Filling into(request, mount, size, plus);
        if (add_dots(mount, inode, offset, into)) {
            if (known)
                fill(mount, inode, known->listing, offset, plus, into);
            else
                fill_made_up(mount, inode, offset, into);
        }
        ReadLock lock(mount.answering);
        if (cache_epoch == mount.cache_epoch) return into.answer();
        into.take_back();
    }
}

void read_directory(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset,
                    fuse_file_info*) {
    list(request, number, size, offset, false);
}

void read_directory_plus(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset,
                         fuse_file_info*) {
    list(request, number, size, offset, true);
}

void open_directory(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
    if (mount_of(request).opens_directories_itself) {
        fuse_reply_err(request, ENOSYS);
        return;
    }
    info->cache_readdir = 1;
    info->keep_cache = 1;
    fuse_reply_open(request, info);
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& operations) {
    operations.opendir = open_directory;
    operations.readdir = read_directory;
    operations.readdirplus = read_directory_plus;
}

}  // namespace holdfast::mount
