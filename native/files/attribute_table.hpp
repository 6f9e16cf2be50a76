// The agent's side of the attribute table (base/attribute_table.h): programs that hold descriptors
// of our copies find there what the originals are like. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/status.hpp"
#include "files/messages.hpp"

struct hf_table;
struct hf_entry;

namespace holdfast {

class AttributeTable {
  public:
    // After so long without a heartbeat programs believe nothing of what they were told.
    static constexpr auto kFresh = std::chrono::milliseconds(400);

    // Makes the file, or goes on with the one that an agent before us left; Full unless the file
    // system has room for all of it now. `was_away` is called when our heart had stopped for so
    // long.
    static Result<std::unique_ptr<AttributeTable>> open(
        const std::string& path, std::function<void()> was_away = [] {});
    ~AttributeTable();

    // To be called before the descriptor is passed. A path that is too long is left out: the shim
    // asks for none.
    void record(const FileOrder& order, const Attributes& original, int descriptor);

    // Looks at a root as this agent sees it and tells programs, so that those that see something
    // else there stand aside. Nothing if that was done since something last changed, or is being
    // done; `if_untold`: if it was ever done. The look may block; it must not outlive the table.
    std::function<void()> look_at(const std::string& root, bool if_untold = false);

    // Keeps the heartbeat running: waiting programs watch it. It rests while nobody asks.
    void keep_beating();

    // Programs may open this copy by its name, `file`, until something changes. `cache_epoch` is
    // that from before the copy was found to be current.
    void record_name(const FileOrder& order, const std::string& file, int descriptor,
                     std::uint64_t cache_epoch);
    std::uint64_t cache_epoch() const;
    // Nothing that was recorded so far may be opened by name any more.
    void advance_epoch();

  private:
    AttributeTable(hf_table* table, std::function<void()> was_away);
    void beat();
    void wake_heart() REQUIRES(mutex_);
    hf_entry& place_for(std::uint64_t device, std::uint64_t inode);
    void record_root(const std::string& root, std::uint64_t cache_epoch);

    struct SeenRoot {
        std::uint64_t cache_epoch = 0;  // from before it was looked at
        std::weak_ptr<void> looking;
    };

    hf_table* table_;
    std::vector<SeenRoot> roots_;  // those of the table
    std::size_t next_root_ = 0;    // which gives way to a new one
    Mutex mutex_;
    Condition wake_;
    TimePoint used_ GUARDED_BY(mutex_){};     // when a program last asked
    bool resting_ GUARDED_BY(mutex_) = true;  // until a program asks
    bool stopping_ GUARDED_BY(mutex_) = false;
    std::function<void()> was_away_;
    std::thread heart_;
};

}  // namespace holdfast
