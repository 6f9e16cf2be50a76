// Paths that left the cache because somebody changed them through Holdfast (rule 12), with all
// below them; they stay out until they are refreshed. Both is said by dropped keys, so that rule 9
// carries it to every member, also to those who join later or were away. Each has a number, greater
// than all that its maker knew; the greatest counts, and of equal ones the one that leaves.
//
// A file may have several names, by links. So a path leaves together with the inode that it had, if
// it had one; other names of that inode are out as long as the path is. A directory or a symbolic
// link that leaves says so: what other names lead through it is to be looked at again, and is found
// to be out by the names on its way.
// Thread-safe; a short lock, no I/O.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

namespace holdfast {

class Excluded {
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
    // The key to drop so that a path leaves the cache, with the inode that it has (0: none); the
    // same as before if it is out already.
    std::string leaving(const std::string& path, std::uint64_t inode) const;
    // The key to drop so that it may return; empty if neither it nor anything below is out.
    std::string returning(const std::string& path) const;
    // A key that was dropped, whatever it is. Tells what it says of a path, if it does.
    enum class News { Nothing, Left, WayLeft, Returned };
    News learn(const std::string& key);

  private:
    struct Said {
        std::uint64_t left = 0, returned = 0;
    };
    // With the lock held: what was said of a path and of those above it.
    Said about(std::string path) const;
    bool out(const std::string& path) const;

    mutable std::mutex mutex_;
    std::unordered_map<std::string, Said> said_;
    std::unordered_map<std::uint64_t, std::set<std::string>> inodes_;  // of which paths
    std::unordered_map<std::string, std::set<std::string>> within_;    // paths by their directory
    std::uint64_t last_ = 0;
};

}  // namespace holdfast
