// The directory behind a tier: immutable files that appear by rename.
//
// Small pages cost a file on tmpfs more than its bytes do. So where the kernel permits it, files
// that fill larger ones lie in a tmpfs of our own (tmpfs.hpp), to which a link leads: "large".
//
// Thread-safe. Calls do file I/O: on a disk they may block, on tmpfs they do not.
#pragma once

#include <atomic>
#include <string>

#include "base/fd.hpp"
#include "base/status.hpp"

namespace holdfast {

class TierDirectory {
  public:
    // Makes the directory, mode 0700; it must not exist, since nobody else's files may appear in
    // it. `huge_pages`: if it lies on a tmpfs.
    static Result<TierDirectory> make(const std::string& path, bool huge_pages = false);
    TierDirectory(TierDirectory&& other) noexcept;
    ~TierDirectory();  // removes the directory and what is in it

    struct NewFile {
        Fd fd;
        std::string place;  // with which all names of this file begin
        std::string name;
        std::uint64_t number;  // never given twice
    };
    // A file for `size` bytes, under a name of its own, mode 0400: a descriptor passed out cannot
    // be reopened to write.
    Result<NewFile> create(std::uint64_t size);
    struct Nameless {
        Fd writing, reading;  // two ways to one file
    };
    Result<Nameless> make_nameless();
    // Before its first byte is written: its size will be this.
    void announce(const Fd& file, std::uint64_t size) const;
    // Gives it its final name.
    Status publish(const std::string& temporary, const std::string& name);
    Result<Fd> open(const std::string& name) const;
    void remove(const std::string& name) const;
    // Whether `bytes` more neither exceed `most`, which may lie here, nor what the file system has
    // left. Files that were removed count as long as somebody has them open, but those alone that
    // lie in a tmpfs of our own: of another nobody can tell whose they are.
    bool has_room(std::uint64_t bytes, std::uint64_t most) const;

    const std::string& path() const { return path_; }
    // By which other processes of ours open a file.
    std::string path_of(const std::string& name) const;

  private:
    TierDirectory(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
    Status add_large();
    Result<NewFile> make_file(bool large);
    struct Place {
        const Fd& directory;
        const char* name;
    };
    Place place_of(const std::string& name) const;
    Status failure(const std::string& what, int error) const;

    std::string path_;
    Fd fd_;
    Fd large_;
    bool size_first_ = false;
    std::atomic<std::uint64_t> next_{0};
};

}  // namespace holdfast
