// What a tree brings: a whole file, a listing or a part of a file, in a file of this node that is
// never written again. A Document is a value, shared freely; an Intake belongs to one thread, and
// all of it may block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/status.hpp"
#include "files/messages.hpp"
#include "store/store.hpp"

namespace holdfast {

struct Document {
    Attributes attributes = {};  // of the file or directory, also if this is a part of it
    BootTime looked = {};        // when the shared file system was asked
    bool keep = true;            // it may be kept: it has not changed a moment ago
    std::shared_ptr<const Fd> file = {};
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
    bool on_disk = false;
};

// The file of a document anew, with an offset of its own.
Result<Fd> reopen(const Fd& file);

// A document on its way into this node: bytes are appended, front to back, then it is finished and,
// if it may be, kept.
class Intake {
  public:
    // Full if there is no room, not even for the moment.
    static Result<Intake> open(Store& store, const std::string& key, std::uint64_t size, Tier tier,
                               bool keep);

    Status append(const char* data, std::size_t size) { return writer_.append(data, size); }
    // `filled` is what all bytes are to be like; its file, size and checksum are set here.
    Result<Document> finish(Document filled) &&;

  private:
    Intake(Writer writer, std::uint64_t size, bool keep)
        : writer_(std::move(writer)), size_(size), keep_(keep) {}

    Writer writer_;
    std::uint64_t size_;
    bool keep_;
};

}  // namespace holdfast
