#include "store/handing.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/scratch.hpp"
#include "store/piece.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kPiece = 256 << 10;

// Where a lease is refused while somebody has the file mapped for writing. (On overlayfs, which is
// what containers have, it is granted: the map is of the file below.)
bool has_sound_leases(const Fd& file) {
    struct statfs info{};
    if (::fstatfs(file.get(), &info) != 0) return false;
    switch (static_cast<std::uint32_t>(info.f_type)) {
        case TMPFS_MAGIC:
        case EXT4_SUPER_MAGIC:
        case XFS_SUPER_MAGIC:
        case BTRFS_SUPER_MAGIC:
            return true;
        default:
            return false;
    }
}

// Whether nobody can write to the file any more. A kernel or file system without leases says no.
bool is_immutable(const Fd& file) {
    if (!has_sound_leases(file)) return false;
    // Whoever opened it to write at this moment would have us signalled: in a way that is ignored.
    ::fcntl(file.get(), F_SETSIG, SIGURG);
    if (::fcntl(file.get(), F_SETLEASE, F_RDLCK) != 0) return false;
    ::fcntl(file.get(), F_SETLEASE, F_UNLCK);
    return true;
}

// Less than `size` if it ends before.
std::size_t read_at(const Fd& file, char* out, std::size_t size, std::uint64_t offset) {
    std::size_t at = 0;
    while (at < size) {
        auto got = ::pread(file.get(), out + at, size - at, static_cast<off_t>(offset + at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        at += static_cast<std::size_t>(got);
    }
    return at;
}

}  // namespace

// ---- who has what ----------------------------------------------------------------------------

Result<Writer> Handing::create(const Store::NewObject& wanted) {
    auto writer = store_.create(wanted);
    if (writer.ok() || writer.status().code() != Code::Busy || !take_from_silent(wanted.key))
        return writer;
    return store_.create(wanted);
}

Handing::FileTime Handing::written(const Fd& file) {
    struct stat info{};
    ::fstat(file.get(), &info);
    return std::chrono::seconds(info.st_mtim.tv_sec) +
           std::chrono::nanoseconds(info.st_mtim.tv_nsec);
}

bool Handing::has_files(const Holder* holder) const {
    return std::ranges::any_of(files_, [&](auto& one) { return one.second.holder == holder; });
}

bool Handing::lives(const Holder* holder) {
    {
        Lock lock(mutex_);
        auto life = lives_.find(holder);
        if (life == lives_.end() || life->second.is_silent() || !has_files(holder)) return false;
        if (std::exchange(life->second.is_looked_at, true)) return true;
    }
    // Should it be gone by then, or another one be in its place: to look does no harm. Where no
    // thread could be started it has not been looked at.
    struct Look {
        Handing& handing;
        const Holder* holder;
        Look(Handing& owner, const Holder* of) : handing(owner), holder(of) {}
        ~Look() { handing.looked_at(holder); }
    };
    pool_.run(lane_,
              [this, holder, ends = std::make_shared<Look>(*this, holder)] { look(holder); });
    return true;
}

void Handing::looked_at(const Holder* holder) {
    Lock lock(mutex_);
    if (auto life = lives_.find(holder); life != lives_.end()) life->second.is_looked_at = false;
}

void Handing::look(const Holder* holder) {
    struct Seen {
        std::string key, name;
        Tier tier;
        FileTime written;
    };
    std::vector<Seen> seen;
    {
        Lock lock(mutex_);
        for (auto& [key, file] : files_)
            if (file.holder == holder)
                seen.push_back(
                    {key, file.writer.temporary_, file.writer.object_->tier, file.written});
    }
    auto began = Clock::now();
    for (auto& one : seen)
        if (auto file = store_.tier(one.tier).directory.open(one.name); file.ok())
            one.written = written(*file);
    Lock lock(mutex_);
    auto life = lives_.find(holder);
    if (life == lives_.end()) return;
    for (auto& one : seen) {
        auto found = files_.find(one.key);
        if (found == files_.end() || found->second.writer.temporary_ != one.name) continue;
        if (std::exchange(found->second.written, one.written) != one.written)
            life->second.sign = Clock::now();
    }
    life->second.looked = began;
}

std::map<std::string, const Handing::Holder*> Handing::in_the_way_of(const std::string& key) {
    std::map<std::string, const Holder*> found;
    auto add = [&](auto& entry) { found.emplace(entry.first, entry.second.holder); };
    Lock lock(mutex_);
    if (auto file = files_.find(key); file != files_.end()) add(*file);
    if (!PieceKey::is_one(key)) return found;
    if (auto piece = PieceKey::parse(key); piece.ok()) for_each_overlapping(*piece, files_, add);
    return found;
}

bool Handing::take_from_silent(const std::string& wanted) {
    bool took = false;
    for (auto& [key, holder] : in_the_way_of(wanted)) {
        look(holder);
        decltype(files_)::node_type taken;  // goes without the lock
        Lock lock(mutex_);
        auto found = files_.find(key);
        if (found == files_.end() || found->second.holder != holder ||
            !lives_.at(holder).is_silent())
            continue;
        taken = files_.extract(found);
        took = true;
    }
    return took;
}

void Handing::forget(const Holder* holder) {
    auto gone = std::make_shared<std::vector<File>>();
    {
        Lock lock(mutex_);
        for (auto entry = files_.begin(); entry != files_.end();) {
            auto file = entry++;
            if (file->second.holder != holder) continue;
            gone->push_back(std::move(file->second));
            files_.erase(file);
        }
        lives_.erase(holder);
    }
    // Freeing a large file takes its time, even in memory.
    if (!gone->empty()) pool_.run(lane_, [gone] {});
}

Result<std::vector<Fd>> Handing::hand(Holder& holder, const HandMessage& message, Duration bears) {
    auto held_by = [&](auto& entry) { return entry.second.holder == &holder; };
    std::vector<std::pair<std::string, File>> files;
    std::vector<Fd> descriptors;
    {
        Lock lock(mutex_);
        auto held = static_cast<std::size_t>(std::count_if(files_.begin(), files_.end(), held_by));
        if (held + message.files.size() > HandMessage::kMost)
            return Status(Code::BadInput, "a connection can have " +
                                              std::to_string(HandMessage::kMost) +
                                              " files that are not sealed, not " +
                                              std::to_string(held + message.files.size()));
        auto now = Clock::now();
        lives_[&holder] = {.bears = bears, .sign = now, .looked = now};
    }
    for (auto& [key, size, header] : message.files) {
        auto writer = create({.key = key, .size = size, .tier = message.tier, .header = header});
        if (!writer.ok()) return writer.take_status();
        if (writer->compares()) {
            descriptors.emplace_back();
            continue;
        }
        descriptors.push_back(std::move(writer->file_));
        auto now = written(descriptors.back());
        files.emplace_back(key, File{std::move(*writer), &holder, now});
    }
    Lock lock(mutex_);
    for (auto& file : files) files_.insert(std::move(file));
    lives_.at(&holder).sign = Clock::now();  // it may have waited for room
    return descriptors;
}

Result<Writer> Handing::take(Holder& holder, const std::string& key) {
    Lock lock(mutex_);
    auto found = files_.find(key);
    if (found == files_.end() || found->second.holder != &holder)
        return Status(Code::Busy, "no file for '" + key +
                                      "' is in this program's hands: it never was, or was given to "
                                      "another writer after a long silence; put it again");
    lives_.at(&holder).sign = Clock::now();
    return std::move(files_.extract(found).mapped().writer);
}

// ---- sealing ---------------------------------------------------------------------------------

Result<Fd> Handing::seal(Writer& writer, const PutMessage& message,
                         std::vector<std::uint32_t> chunks) {
    auto& object = *writer.object_;
    if (message.tier != object.home)
        return Status(Code::BadInput, "the file for '" + object.key + "' is in another tier");
    if (message.header.bytes != object.header.bytes)
        return Status(Code::BadInput,
                      "the file for '" + object.key + "' was handed with another header");
    object.copies = message.copies();
    object.least = message.least();
    if (chunks.size() != (object.size + kChunk - 1) / kChunk)
        return Status(Code::BadInput, std::to_string(chunks.size()) + " checksums for the " +
                                          std::to_string(object.size) + " bytes of '" + object.key +
                                          "'; each " + std::to_string(kChunk) + " have one");
    {
        // Before it goes on: what was dropped in the meantime goes to nobody behind us.
        Lock lock(store_.mutex_);
        if (Status status = store_.index_.writable(object.key); !status.ok()) return status;
    }
    auto file = writer.reopen();
    if (!file.ok()) return file;
    bool immutable = is_immutable(*file);
    struct stat info{};
    if (::fstat(file->get(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) != object.size)
        return Status(Code::BadInput, "the file for '" + object.key + "' was to have " +
                                          std::to_string(object.size) + " bytes and has " +
                                          std::to_string(info.st_size));
    ++store_.counters_.sealed;
    if (!immutable) return copy(writer, *file, chunks);
    object.chunks = std::move(chunks);
    writer.written_ = object.size;
    return file;
}

Result<Fd> Handing::copy(Writer& writer, const Fd& handed,
                         const std::vector<std::uint32_t>& chunks) {
    ++store_.counters_.seal_copied;
    auto& object = *writer.object_;
    // Both are there while we copy. What is left of the old one later is for nobody to know: its
    // pages go when the last who could write to it lets go.
    if (Status full = store_.reserve(object.tier, object.footprint()); !full.ok()) return full;
    struct Room {
        Store& store;
        const Object& object;
        ~Room() { store.give_back(object.tier, object.footprint()); }
    } room{store_, object};
    std::string old = std::exchange(writer.temporary_, {});
    Status made = store_.add_file(writer);
    store_.tier(object.tier).directory.remove(old);
    if (!made.ok()) return made;
    Scratch piece(kPiece);
    for (std::uint64_t at = 0; at < object.size; at += kPiece) {
        auto size = std::min<std::uint64_t>(kPiece, object.size - at);
        if (read_at(handed, piece.data(), size, at) != size)
            return Status(Code::Damaged, "the file for '" + object.key + "' could not be read");
        if (Status status = writer.append(piece.data(), size); !status.ok()) return status;
    }
    if (object.chunks != chunks)
        return Status(Code::Damaged, "'" + object.key +
                                         "' was still written to while it was sealed, and does not "
                                         "match its checksums; put it again");
    writer.file_.reset();
    return writer.reopen();
}

}  // namespace holdfast
