// An object on its way into the store: room is reserved, bytes are appended, then it is committed
// or, when the Writer goes, as if it had never been. One thread at a time; append() and commit()
// may block.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/status.hpp"
#include "store/object.hpp"

namespace holdfast {

class Store;

class Writer {
  public:
    Writer(Writer&&) = default;
    ~Writer();

    Status append(const char* data, std::size_t size);
    // Publishes the object if all bytes came and match `expected_crc`.
    Result<ObjectPtr> commit(std::uint32_t expected_crc);
    // Of a piece (store/piece.hpp) whose bytes are all here: KeyExists if one that overlaps it has
    // others in common. Before they are believed by anybody else; commit() does it in any case.
    Status compare_overlapped();

    // Whether the key is stored already, so that bytes are only compared: append() then refuses
    // other bytes with KeyExists.
    bool compares() const { return existing_ != nullptr; }
    // Where it comes to lie.
    Tier tier() const { return object_->tier; }
    std::uint64_t size() const { return object_->size; }
    // The checksum of what was appended so far.
    std::uint32_t crc() const;
    // As in Object; the last one may be unfinished.
    const std::vector<std::uint32_t>& chunks() const { return object_->chunks; }
    // The file that grows, for those who read along; nothing for an object in the heap.
    Result<Fd> reopen() const;

  private:
    friend class Store;
    friend class Handing;
    Writer(Store* store, std::shared_ptr<Object> object)
        : store_(store), object_(std::move(object)) {}
    Status compare(const char* data, std::size_t size);
    Status compare_with(const ObjectPtr& other);
    void sum(const char* data, std::size_t size);

    struct Release {
        void operator()(Store*) const {}
    };
    std::unique_ptr<Store, Release> store_;  // not owned; empty once moved from or committed
    std::shared_ptr<Object> object_;
    std::uint64_t written_ = 0;
    Fd file_;
    std::string temporary_;
    // Set if the key is stored already: the new bytes are only compared with these.
    ObjectPtr existing_;
    // Stored pieces that it overlaps, still to be compared.
    std::vector<ObjectPtr> overlapped_;
};

}  // namespace holdfast
