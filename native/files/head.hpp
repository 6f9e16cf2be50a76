// What the head of a tree does, and nobody else: it reads the shared file system. Each thing is
// read once however many ask for it at the same time. Thread-safe; read() may block.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "files/document.hpp"
#include "files/files.hpp"
#include "files/messages.hpp"
#include "store/store.hpp"

namespace holdfast {

// Those who ask for the same thing at the same time wait for one of them. Thread-safe.
class Joining {
  public:
    using Find = std::function<Result<Document>()>;
    // What `find` gives, called by the first who asks under that name. NotCached if it does not
    // come within the deadline.
    Result<Document> once(const std::string& name, Duration deadline, const Find& find);
    std::uint64_t joined() const { return joined_; }

  private:
    struct Running {
        std::condition_variable ended;
        std::optional<Result<Document>> outcome;
    };
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Running>> running_;
    std::atomic<std::uint64_t> joined_{0};
};

class Head {
  public:
    Head(Store& store, Files& files) : store_(store), files_(files) {}

    // Larger files are read in parts only; what was seen longer ago than `ttl` is looked at again.
    void set(Tier tier, std::uint64_t largest, Duration ttl) {
        tier_ = tier;
        largest_ = largest;
        ttl_ = ttl;
    }
    // NotCached if it is not there, not what was asked for, or cannot be read, whatever the reason.
    Result<Document> read(const TreeOrder& order, Duration deadline);

    struct Counters {
        std::atomic<std::uint64_t> files{0}, listings{0}, parts{0}, bytes{0};
    };
    const Counters& counters() const { return counters_; }
    std::uint64_t joined() const { return joining_.joined(); }

  private:
    // Large files are read part by part; they stay open meanwhile, the ones used last.
    struct Source {
        Attributes attributes;
        Fd file;
        BootTime looked;
        std::uint64_t epoch;  // of the catalogue, when it was looked at
    };
    using Sources = std::list<std::pair<std::string, std::shared_ptr<const Source>>>;
    static constexpr std::size_t kMostSources = 64;

    Result<Document> file(const TreeOrder& order, Duration deadline);
    Result<Document> listing(const TreeOrder& order);
    Result<Document> part(const TreeOrder& order, Duration deadline);
    Result<std::shared_ptr<const Source>> source(const TreeOrder& order, Duration deadline);
    Result<std::shared_ptr<const Source>> open_source(const TreeOrder& order);
    FileOrder as_file(const TreeOrder& order, std::uint64_t largest) const;

    Store& store_;
    Files& files_;
    std::atomic<Tier> tier_{Tier::Memory};
    std::atomic<std::uint64_t> largest_{32 << 20};
    std::atomic<Duration> ttl_{Duration::max()};
    Joining joining_;
    Counters counters_;
    std::mutex mutex_;
    std::set<std::string> opening_;  // each by one thread
    std::condition_variable opened_;
    Sources sources_;  // the one used last in front
};

}  // namespace holdfast
