// Copies that went bad: found when they are read, given up at once, remembered until there is
// another.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.hpp"
#include "base/log.hpp"
#include "base/scratch.hpp"
#include "store/store.hpp"

namespace holdfast {

Result<Fd> Store::open_file(const ObjectPtr& object) {
    auto file = tier(object->tier).directory.open(object->name);
    // A file that is gone while its object is still in the index was removed by somebody else.
    if (!file.ok() && file.status().code() == Code::Damaged) {
        lose(object, file.status().message());
        return absent(object->key);
    }
    struct stat info{};
    if (file.ok() && ::fstat(file->get(), &info) == 0 &&
        static_cast<std::uint64_t>(info.st_size) != object->size) {
        lose(object, "its file was cut short or prolonged");
        return absent(object->key);
    }
    return file;
}

std::string Store::path_of(const Object& object) {
    return tier(object.tier).directory.path_of(object.name);
}

void Store::lose(const ObjectPtr& object, const std::string& why) {
    {
        std::lock_guard lock(mutex_);
        auto slot = index_.find(object->key);
        if (slot == index_.end() || slot->second.object != object) return;  // dropped meanwhile
        ++counters_.damaged;
        unlink(slot);
        // What has a source is read again; of the rest nobody may say that it never was.
        if (!object->has_source && lost_.insert(object->key).second) remember(object->key);
    }
    log_warning("lost the copy of '" + object->key + "': " + why);
    remove_file(*object);
}

void Store::forget_loss(const std::string& key) {
    if (lost_.erase(key) > 0) tier(Tier::Memory).occupied -= key.size() + kEntryBytes;
}

Status Store::verify(const ObjectPtr& object) {
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
        while (at < size) {
            auto got = ::pread(file->get(), chunk.data() + at, size - at,
                               static_cast<off_t>(i * kChunk + at));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            at += static_cast<std::uint64_t>(got);
        }
        if (at == size && crc32c(0, chunk.data(), size) == object->chunks[i]) continue;
        lose(object, "its file does not match its checksum");
        return Status(Code::Damaged, "'" + object->key + "' did not match its checksum");
    }
    return {};
}

}  // namespace holdfast
