#include "files/listing.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/scratch.hpp"
#include "files/resolve.hpp"
#include "rpc/wire.hpp"

namespace holdfast {
namespace {

constexpr std::uint32_t kFormat = 1;

// Mode 0 if it went, or may not be looked at: who wants it asks the shared file system.
Entry look_at(int directory, const char* name) {
    Entry entry{name, {}, {}};
    struct stat info{};
    if (::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return entry;
    if (S_ISLNK(info.st_mode)) {
        std::array<char, PATH_MAX> target;
        auto size = ::readlinkat(directory, name, target.data(), target.size());
        if (size <= 0 || size == static_cast<ssize_t>(target.size())) return entry;
        entry.target.assign(target.data(), static_cast<std::size_t>(size));
    }
    entry.attributes = Attributes::of(info);
    return entry;
}

}  // namespace

const Entry* Listing::find(std::string_view name) const {
    auto at = std::lower_bound(entries.begin(), entries.end(), name,
                               [](const Entry& entry, auto wanted) { return entry.name < wanted; });
    return at != entries.end() && at->name == name ? &*at : nullptr;
}

std::string Listing::encode() const {
    MetaWriter writer;
    writer.number(kFormat).text(directory.encode());
    writer.number(static_cast<std::uint32_t>(entries.size()));
    for (const Entry& entry : entries)
        writer.text(entry.name).text(entry.attributes.encode()).text(entry.target);
    return writer.take();
}

Result<Listing> Listing::decode(std::string_view document) {
    MetaReader reader(document);
    Listing listing;
    auto format = reader.number<std::uint32_t>();
    auto top = Attributes::decode(std::string(reader.text()));
    auto count = reader.number<std::uint32_t>();
    bool whole = format == kFormat && top.ok();
    if (whole) listing.directory = *top;
    // An entry takes some bytes at least: a spoilt count must not reserve memory.
    for (std::uint32_t i = 0; i < count && whole && !reader.failed(); ++i) {
        Entry entry;
        entry.name = reader.text();
        auto attributes = Attributes::decode(std::string(reader.text()));
        entry.target = reader.text();
        whole = attributes.ok();
        if (whole) entry.attributes = *attributes;
        whole = whole && (listing.entries.empty() || listing.entries.back().name < entry.name);
        listing.entries.push_back(std::move(entry));
    }
    if (!whole || !reader.whole()) return Status(Code::Damaged, "a listing is damaged");
    return listing;
}

Result<Listing> read_listing(int file, std::size_t size) {
    Scratch bytes(size);
    for (std::size_t at = 0; at < size;) {
        auto got = ::pread(file, bytes.data() + at, size - at, static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return Status(Code::Damaged, "a listing is cut short");
        at += static_cast<std::size_t>(got);
    }
    return Listing::decode({bytes.data(), size});
}

Result<Listing> list_directory(const std::string& root, const std::string& path,
                               Changing changing) {
    FileOrder order{.root = root, .path = path};
    auto place = path == root ? resolve_root(root) : resolve(order);
    if (!place.ok()) return place.take_status();
    auto fd = open_directory(*place);
    if (!fd.ok()) return fd.take_status();
    std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd->get()), &::closedir);
    if (!stream) return system_failure(Code::NotCached, "cannot list " + path, errno);
    fd->release();
    std::vector<std::pair<ino_t, std::string>> names;
    errno = 0;
    while (dirent* next = ::readdir(stream.get())) {
        if (std::strcmp(next->d_name, ".") != 0 && std::strcmp(next->d_name, "..") != 0)
            names.emplace_back(next->d_ino, next->d_name);
        errno = 0;
    }
    if (errno != 0) return system_failure(Code::NotCached, "cannot list " + path, errno);
    // A disk reads inodes that lie together at once.
    std::ranges::sort(names);
    Listing listing{place->attributes, {}};
    for (auto& [inode, name] : names)
        listing.entries.push_back(look_at(::dirfd(stream.get()), name.c_str()));
    std::sort(listing.entries.begin(), listing.entries.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    if (changing == Changing::Taken) return listing;
    struct stat after{};
    if (::fstat(::dirfd(stream.get()), &after) != 0 ||
        Attributes::of(after).identity() != listing.directory.identity())
        return Status(Code::NotCached, path + " changed while it was listed");
    return listing;
}

}  // namespace holdfast
