// The directory behind a tier: immutable files that appear by rename.
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
    // it.
    static Result<TierDirectory> make(const std::string& path);
    TierDirectory(TierDirectory&& other) noexcept;
    ~TierDirectory();  // removes the directory and what is in it

    struct NewFile {
        Fd fd;
        std::string name;
        std::uint64_t number;  // never given twice
    };
    // A file under a name of its own, mode 0400: a descriptor passed out cannot be reopened to
    // write.
    Result<NewFile> create();
    struct Nameless {
        Fd writing, reading;  // two ways to one file
    };
    Result<Nameless> make_nameless();
    // Gives it its final name.
    Status publish(const std::string& temporary, const std::string& name);
    Result<Fd> open(const std::string& name) const;
    void remove(const std::string& name) const;

    const std::string& path() const { return path_; }

  private:
    TierDirectory(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
    Status failure(const std::string& what, int error) const;

    std::string path_;
    Fd fd_;
    std::atomic<std::uint64_t> next_{0};
};

}  // namespace holdfast
