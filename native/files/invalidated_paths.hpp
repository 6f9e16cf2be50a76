// Paths that were invalidated because somebody changed them through Holdfast (rule 12), with all
// below them; they stay out of the cache until they are refreshed. Both is said by notices, so that
// rule 9 carries it to every member, also to those who join later or were away. Each has a number,
// greater than all that its maker knew; the greatest counts, and of equal ones the one that
// invalidates. Here a notice is its text (store/notices.hpp).
//
// A file may have several names, by links. So a path is invalidated together with the inode that it
// had, if it had one; other names of that inode are out as long as the path is. The notice of a
// directory or a symbolic link says that it is one: what other names lead through it is to be
// revalidated, and is found to be out by the names on its way.
//
// Rule 9 keeps notices for ever, and programs may change any number of paths. So a notice is
// forgotten when another one says as much of its path and of all below it:
//
// - a return of a path, with a greater number, for what was invalidated at or below it, and for
//   returns there;
// - an invalidated directory, with a number no less, for names below it that were invalidated
//   without an inode.
//
// That is final. What such a notice covers is covered as well by any for which it is forgotten in
// its turn, so at every moment some notice that is known covers all that were ever forgotten: one
// that comes back from a member who has not heard yet is refused, and no path is out, or in, that
// would not be if all had been kept, whatever the order in which a member hears of them.
// Thread-safe; a short lock, no I/O.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"

namespace holdfast {

class InvalidatedPaths {
  public:
    bool contains(const std::string& path) const;
    // Whether it is the inode of a path that is out.
    bool contains(std::uint64_t inode) const;
    // Whether something directly in this directory is out, so that a listing of it may be wrong.
    bool touches(const std::string& directory) const;
    // Instead of an inode: other names may lead through the path.
    static constexpr std::uint64_t kWay = ~std::uint64_t{0};
    // Whether anything was ever out.
    bool empty() const;
    // The notice that invalidates a path, with the inode that it has (0: none); the same as
    // before if it is out already.
    std::string invalidation(const std::string& path, std::uint64_t inode) const;
    // By what a path is out: itself or a directory above it, and the notice that says so.
    struct Cover {
        std::string path, notice;
    };
    std::optional<Cover> cover(const std::string& path) const;
    // So much was said of names in one directory that it is better to say it of the directory.
    static constexpr std::size_t kMostWithin = 1024;
    bool crowded(const std::string& directory) const;
    // The notice by which it may return; empty if neither it nor anything below is out.
    std::string readmission(const std::string& path) const;
    // A new notice. Tells what it says of a path, if it does, and which are to be forgotten from
    // now on, perhaps this one.
    enum class News { Nothing, Invalidated, WayInvalidated, Returned };
    struct Learnt {
        News news = News::Nothing;
        std::vector<std::string> forgotten = {};
    };
    Learnt learn(const std::string& notice);
    // For a notice that invalidates a path, if it was refused: one that is not. Else empty.
    std::string repeated(const std::string& notice) const;

  private:
    // What a notice says of its path.
    struct Saying {
        bool invalidates = false;
        std::uint64_t number = 0, inode = 0;
        auto operator<=>(const Saying&) const = default;
        std::string notice(const std::string& path) const;
    };
    struct Said {
        std::set<Saying> all;
        std::uint64_t invalidated = 0, returned = 0;  // the greatest numbers
    };
    struct Decoded {
        std::string path;
        Saying saying;
    };
    static std::optional<Decoded> decode(const std::string& notice);
    // Whether the first says as much as the second of the second's path, which is at or below it.
    static bool covers(const Saying& one, const Saying& other, bool same_path);
    // What was said of a path and of those above it.
    struct Greatest {
        std::uint64_t invalidated = 0, returned = 0;
    };
    Greatest about(std::string path) const REQUIRES(mutex_);
    bool out(const std::string& path) const REQUIRES(mutex_);
    bool covered(const std::string& path, const Saying& saying) const REQUIRES(mutex_);
    // What is covered by the saying about a path; it is no longer said.
    std::vector<std::string> forget_below(const std::string& path, const Saying& saying)
        REQUIRES(mutex_);
    void forget(const std::string& path, Said& said, const Saying& saying) REQUIRES(mutex_);

    mutable Mutex mutex_;
    std::unordered_map<std::string, Said> said_ GUARDED_BY(mutex_);
    // Of which paths an inode is.
    std::unordered_map<std::uint64_t, std::set<std::string>> inodes_ GUARDED_BY(mutex_);
    struct Within {
        std::set<std::string> paths;  // that were invalidated
        std::size_t sayings = 0;      // of them
    };
    std::unordered_map<std::string, Within> within_ GUARDED_BY(mutex_);  // by their directory
    std::uint64_t last_ GUARDED_BY(mutex_) = 0;
};

}  // namespace holdfast
