// Files handed to programs: room and key are reserved as for any object (Store::create), but it is
// a program that writes the file, by a descriptor, and nobody else reads it until it is sealed.
//
// Sealing makes sure that nobody can write any more. The kernel grants a read lease only while no
// descriptor, mapping or child of anybody has the file open for writing; we hold none ourselves,
// and the lease is let go at once, since a file without writers gets none: it has no name that
// programs know, and its mode, 0400, keeps descriptors from being opened again to write. (It does
// not keep root from that, nor whoever changes the mode. Nor does a lease see pages that a device
// still writes to after they were unmapped. Both take more than a slip, and checksums find them.)
// Without a lease, or on a file system whose leases do not mean that, the bytes are copied to a
// file that was never handed to anybody, and the copy must match the checksums. A file that was
// handed is used for nothing else, sealed or not.
//
// What is not sealed belongs to a Holder, which goes with its connection, or when another writer
// wants the key and the program has given no sign of life for as long as it bears silence itself. A
// request is a sign, and so is a write to any of its files: the time of its last change is another
// one than when we looked before. It is compared with nothing else, since clocks are set back. So a
// connection rests no longer than that, and longer than others while its program writes.
//
// Thread-safe, but each Holder is for one thread at a time. hand() may block for room, create() and
// seal() for files; a Holder that goes leaves its files to the pool, which looks at them, too: no
// file is touched under our lock, for which network threads wait.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "rpc/handler.hpp"
#include "rpc/pool.hpp"
#include "store/messages.hpp"
#include "store/store.hpp"

namespace holdfast {

class Handing {
  public:
    // `lane` is of the pool, for work that may block on a disk.
    Handing(Store& store, Pool& pool, std::size_t lane) : store_(store), pool_(pool), lane_(lane) {}

    // Who was handed files.
    class Holder : public Kept {
      public:
        explicit Holder(Handing& handing) : handing_(handing) {}
        Holder(const Holder&) = delete;
        Holder& operator=(const Holder&) = delete;
        ~Holder() override { handing_.forget(this); }
        // It has files, and was not silent when we last looked.
        bool lives() override { return handing_.lives(this); }

      private:
        Handing& handing_;
    };

    // As Store::create(), and writers in its way whose holder is silent go before that.
    Result<Writer> create(const Store::NewObject& wanted);

    // A descriptor for each file, to write to; none for a key that is stored with that size
    // already: what is put there must be compared. All or nothing. `bears` is the silence that the
    // program bears itself.
    Result<std::vector<Fd>> hand(Holder& holder, const HandMessage& message, Duration bears);

    // What the holder was handed for a key, and has no longer; Busy if it has not.
    Result<Writer> take(Holder& holder, const std::string& key);
    // Lets the writer have what the program wrote, to be committed, and gives a descriptor to pass
    // the bytes on from. `chunks` are the checksums of each kChunk.
    Result<Fd> seal(Writer& writer, const PutMessage& message, std::vector<std::uint32_t> chunks);

  private:
    using FileTime = std::chrono::nanoseconds;
    struct File {
        Writer writer;
        const Holder* holder;
        FileTime written;  // as its file system said when we last looked
    };
    struct Life {
        Duration bears;
        TimePoint sign;    // when we last noticed one
        TimePoint looked;  // at its files
        bool is_looked_at = false;
        bool is_silent() const { return looked - sign >= bears; }
    };

    static FileTime written(const Fd& file);
    void forget(const Holder* holder);
    bool lives(const Holder* holder);
    void look(const Holder* holder);
    void looked_at(const Holder* holder);
    // Keys that programs have in their hands and that keep this one from being written: itself, and
    // those of pieces that it overlaps.
    std::map<std::string, const Holder*> in_the_way_of(const std::string& key);
    bool take_from_silent(const std::string& wanted);
    bool has_files(const Holder* holder) const REQUIRES(mutex_);
    Result<Fd> copy(Writer& writer, const Fd& handed, const std::vector<std::uint32_t>& chunks);

    Store& store_;
    Pool& pool_;
    const std::size_t lane_;
    Mutex mutex_;
    std::map<std::string, File> files_ GUARDED_BY(mutex_);
    std::map<const Holder*, Life> lives_ GUARDED_BY(mutex_);
};

}  // namespace holdfast
