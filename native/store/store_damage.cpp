// Copies that went bad: found when they are read, given up at once, remembered until there is
// another. And disks that went bad: given up with all that is on them.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/crc32c.hpp"
#include "base/log.hpp"
#include "base/scratch.hpp"
#include "store/store.hpp"

namespace holdfast {
namespace {

// How many errors in the life of an agent condemn its disk. A sound one gives none: makers promise
// less than one unreadable sector in 100 TB. A few are more than one bad sector explains. That
// reads succeed in between says nothing, since they may come from the page cache.
constexpr int kMostFailures = 3;
// How long nothing spills to a disk that had no room although its capacity was not used up.
constexpr auto kFullFor = std::chrono::seconds(10);

// Whether an error is the medium's. Room, descriptors and memory that lack are not, nor is a file
// that somebody removed.
bool of_medium(int error) {
    switch (error) {
        case 0:
        case EINTR:
        case EAGAIN:
        case ENOMEM:
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
        case EMFILE:
        case ENFILE:
        case ENOENT:
        case EEXIST:
            return false;
        default:
            return true;
    }
}

}  // namespace

Result<Fd> Store::open_file(const ObjectPtr& object) {
    auto& state = tier(object->tier);
    auto file = state.directory.open(object->name);
    int error = errno;
    // A file that is gone while its object is still in the index was removed by somebody else.
    if (!file.ok() && file.status().code() == Code::Damaged) {
        if (lose(object, file.status().message())) medium_failed(object->tier, error);
        return absent(object->key);
    }
    // Whoever asks is better told now than after the head of our answer. What a disk gives at its
    // first byte would have been read anyway.
    char first;
    if (file.ok() && object->tier == Tier::Disk && object->size > 0 &&
        ::pread(file->get(), &first, 1, 0) < 0 && of_medium(errno)) {
        unreadable(object, errno);
        return absent(object->key);
    }
    struct stat info{};
    if (file.ok() && ::fstat(file->get(), &info) == 0 &&
        static_cast<std::uint64_t>(info.st_size) != object->size) {
        lose(object, "its file was truncated or extended");
        return absent(object->key);
    }
    return file;
}

std::string Store::path_of(const Object& object) {
    return tier(object.tier).directory.path_of(object.name);
}

bool Store::lose(const ObjectPtr& object, const std::string& why) {
    {
        Lock lock(mutex_);
        if (!index_.lose(object)) return false;
        ++counters_.damaged;
        left(*object);
    }
    if (watch_lost_) watch_lost_();
    log_warning("lost the copy of '" + object->key + "': " + why);
    note(event::Incident::Lost, object->tier, object->key, why);
    remove_file(*object);
    return true;
}

void Store::unreadable(const ObjectPtr& object, int error) {
    if (!of_medium(error)) return;
    // Several who read one bad sector at the same time count once.
    if (lose(object, std::string("its file cannot be read: ") + std::strerror(error)))
        medium_failed(object->tier, error);
}

bool Store::write_failed(Tier which, int error) {
    if (which != Tier::Disk) return false;
    Lock lock(mutex_);
    auto& state = account(which);
    // Somebody else may have taken what is ours by our capacity, and may give it back.
    if (error == ENOSPC || error == EDQUOT) state.full_until = Clock::now() + kFullFor;
    if (!of_medium(error)) return false;
    if (++state.write_failures == kMostFailures && !tier(which).condemned.exchange(true)) {
        log_warning(std::string("the disk tier cannot be written (") + std::strerror(error) +
                    "); new copies are kept in memory from now on");
        note(event::Incident::Condemned, which, "",
             std::string("it cannot be written: ") + std::strerror(error));
    }
    return true;
}

void Store::note(event::Incident::Kind kind, Tier which, const std::string& key, std::string why) {
    if (incidents_ == nullptr) return;
    incidents_->note({.kind = kind,
                      .what = which == Tier::Disk ? "disk" : "memory",
                      .about = key,
                      .status = Status(Code::Damaged, std::move(why))});
}

// Under one lock, so that nobody is told of half of it. The files go as well: programs open copies
// of files by their names.
void Store::medium_failed(Tier which, int error) {
    // Pages of memory that fail are taken out of use by the kernel, one by one.
    if (which != Tier::Disk || !of_medium(error)) return;
    std::vector<ObjectPtr> lost;
    {
        Lock lock(mutex_);
        auto& state = account(which);
        if (++state.failures != kMostFailures) return;
        tier(which).condemned = true;
        for (auto& object : index_.list("", "", std::numeric_limits<std::size_t>::max())) {
            if (object->tier != which) continue;
            index_.lose(object);
            left(*object);
            state.reserved -= object->footprint();
            state.leaving -= object->footprint();
            lost.push_back(std::move(object));
        }
        counters_.damaged += lost.size();
        room_.notify_all();
    }
    if (watch_lost_) watch_lost_();
    log_warning("the disk tier has failed " + std::to_string(kMostFailures) + " times (" +
                std::strerror(error) + ") and is abandoned with " + std::to_string(lost.size()) +
                " copies; new copies are kept in memory from now on");
    note(event::Incident::Condemned, which, "",
         std::string(std::strerror(error)) + "; " + std::to_string(lost.size()) +
             " copies are abandoned");
    for (auto& object : lost) tier(which).directory.remove(object->name);
}

Status Store::verify(const ObjectPtr& object) {
    if (!object->header.sound()) {
        lose(object, "its header does not match its checksum");
        return Status(Code::Damaged, "the header of '" + object->key + "' went bad");
    }
    if (object->in_heap) {
        if (crc32c(0, object->bytes.data(), object->bytes.size()) == object->crc) return {};
        lose(object, "its bytes in memory do not match their checksum");
        return Status(Code::Damaged, "'" + object->key + "' did not match its checksum");
    }
    auto file = open_file(object);
    if (!file.ok()) return file.take_status();
    Scratch chunk(kChunk);
    for (std::size_t i = 0; i < object->chunks.size(); ++i) {
        auto size = std::min<std::uint64_t>(kChunk, object->size - i * kChunk);
        std::uint64_t at = 0;
        int error = 0;
        while (at < size) {
            auto got = ::pread(file->get(), chunk.data() + at, size - at,
                               static_cast<off_t>(i * kChunk + at));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) error = errno;
            if (got <= 0) break;
            at += static_cast<std::uint64_t>(got);
        }
        if (error != 0 && !of_medium(error))
            return system_failure(Code::Busy, "cannot read '" + object->key + "'", error);
        if (error != 0) {
            unreadable(object, error);
            return Status(Code::Damaged, "'" + object->key + "' could not be read");
        }
        if (at == size && crc32c(0, chunk.data(), size) == object->chunks[i]) continue;
        lose(object, "its file does not match its checksum");
        return Status(Code::Damaged, "'" + object->key + "' did not match its checksum");
    }
    return {};
}

}  // namespace holdfast
