// What the head of a tree does, and nobody else: it reads the shared file system. Each thing is
// read once however many ask for it at the same time. Thread-safe; read() may block.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "base/mutex.hpp"
#include "base/single_flight.hpp"
#include "files/document.hpp"
#include "files/files.hpp"
#include "files/messages.hpp"
#include "store/store.hpp"

namespace holdfast {

class Head {
  public:
    Head(Store& store, Files& files) : store_(store), files_(files) {}

    // Larger files are read in parts only; what was seen longer ago than `ttl` is revalidated.
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
    std::uint64_t joined() const { return reads_.joined(); }

  private:
    // Large files are read part by part; they stay open meanwhile, the ones used last.
    struct Source {
        Attributes attributes;
        Fd file;
        BootTime looked;
        std::uint64_t epoch;  // of the catalogue, when it was looked at
    };
    using SourcePtr = std::shared_ptr<const Source>;
    using Sources = std::list<std::pair<std::string, SourcePtr>>;
    static constexpr std::size_t kMostSources = 64;

    Result<Document> file(const TreeOrder& order, Duration deadline);
    Result<Document> listing(const TreeOrder& order);
    Result<Document> part(const TreeOrder& order, Duration deadline);
    Result<SourcePtr> source(const TreeOrder& order, Duration deadline);
    Result<SourcePtr> source_here(const std::string& name, const TreeOrder& order);
    Result<SourcePtr> open_source(const TreeOrder& order);
    FileOrder as_file(const TreeOrder& order, std::uint64_t largest) const;

    Store& store_;
    Files& files_;
    std::atomic<Tier> tier_{Tier::Memory};
    std::atomic<std::uint64_t> largest_{32 << 20};
    std::atomic<Duration> ttl_{Duration::max()};
    Counters counters_;
    SingleFlight<std::string, Result<Document>> reads_;
    SingleFlight<std::string, Result<SourcePtr>> opens_;
    Mutex mutex_;
    Sources sources_ GUARDED_BY(mutex_);  // the one used last in front
};

}  // namespace holdfast
