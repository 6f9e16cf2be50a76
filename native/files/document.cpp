#include "files/document.hpp"

#include <fcntl.h>

#include <atomic>
#include <cerrno>

namespace holdfast {

Result<Fd> reopen(const Fd& file) {
    Fd again(::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
    if (!again) return system_failure(Code::NotCached, "cannot reopen a file to pass it on", errno);
    return again;
}

Result<Intake> Intake::open(Store& store, const std::string& key, std::uint64_t size, Tier tier,
                            bool keep) {
    static std::atomic<std::uint64_t> passing{0};
    Store::NewObject wanted{key, size, tier, true, 0};
    if (keep) {
        auto writer = store.create(wanted);
        if (writer.ok() && !writer->compares()) return Intake(std::move(*writer), size, true);
        if (!writer.ok() && writer.status().code() == Code::Full) return writer.take_status();
        // Somebody else stores it at this moment, or it was dropped: this one passes through.
    }
    wanted.key += "#" + std::to_string(++passing);
    auto writer = store.create(wanted);
    if (!writer.ok()) return writer.take_status();
    return Intake(std::move(*writer), size, false);
}

Result<Document> Intake::finish(Document filled) && {
    filled.size = size_;
    filled.crc = writer_.crc();
    filled.on_disk = writer_.tier() == Tier::Disk;
    auto file = writer_.reopen();
    if (!file.ok()) return file.take_status();
    // Kept or not, it is whole, and nobody writes to it any more.
    if (keep_) (void)writer_.commit(filled.crc);
    filled.file = std::make_shared<const Fd>(std::move(*file));
    return filled;
}

}  // namespace holdfast
