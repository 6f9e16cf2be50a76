#include "files/fill.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>

#include "base/crc32c.hpp"
#include "base/fault.hpp"
#include "base/log.hpp"
#include "base/scratch.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kPiece = 256 << 10;
// A file that does not stay in the cache is not read whole for each of its parts.
constexpr auto kSeldom = std::chrono::seconds(60);

}  // namespace

Growing::Progress Fill::progress() const {
    std::lock_guard lock(mutex_);
    return progress_;
}

void Fill::wake_beyond(std::uint64_t bytes, std::function<void()> wake) {
    {
        std::lock_guard lock(mutex_);
        if (progress_.bytes <= bytes && !progress_.ended) {
            waiters_.push_back({bytes, std::move(wake)});
            return;
        }
    }
    wake();
}

Status Fill::wait_until_open(Duration deadline) {
    std::unique_lock lock(mutex_);
    if (!opened_.wait_for(lock, deadline, [&] { return open_status_.has_value(); }))
        return Status(Code::DeadlineMissed, "the shared file system did not open the file in time");
    return *open_status_;
}

Result<std::uint32_t> Fill::wait_for(const Range& range, Duration deadline) {
    std::uint64_t end = range.begin + range.size;
    auto there = std::make_shared<std::promise<void>>();
    wake_beyond(end - 1, [there] { there->set_value(); });
    if (there->get_future().wait_for(deadline) != std::future_status::ready)
        return Status(Code::NotCached, "this part has not arrived yet");
    std::lock_guard lock(mutex_);
    if (progress_.bytes < end || progress_.failed)
        return Status(Code::NotCached, "it changed while it was read, or reading it failed");
    return crc_of(chunks_, file_.size, range);
}

void Fill::opened(Status status) {
    std::lock_guard lock(mutex_);
    open_status_ = std::move(status);
    opened_.notify_all();
}

Status Fill::open(Store& store, const Source& source) {
    std::uint64_t size = source.place.attributes.size;
    // Whoever gets nothing from us opens the original: nobody opens it in vain before that.
    if (Status full = store.room_for_file(source.tier, size); !full.ok()) return full;
    auto input = open_place(source.place);
    if (!input.ok()) return input.take_status();
    input_ = std::move(*input);
    auto writer = store.create({source.key, size, source.tier, true, source.copies});
    if (!writer.ok()) return writer.take_status();
    if (writer->compares())
        return Status(Code::Busy, "'" + source.key + "' was just stored; try again");
    auto file = writer->reopen();
    if (!file.ok()) return file.take_status();
    writer_.emplace(std::move(*writer));
    file_ = {std::make_shared<const Fd>(std::move(*file)), 0, size, writer_->tier() == Tier::Disk};
    return {};
}

bool Fill::unchanged(const Attributes& before) const {
    struct stat info{};
    if (::fstat(input_.get(), &info) != 0) return false;
    auto after = Attributes::of(info);
    return after.identity() == before.identity() && after.device == before.device;
}

void Fill::run(const Source& source) {
    Status failed;
    std::uint64_t size = source.place.attributes.size;
    Scratch piece(std::min<std::uint64_t>(kPiece, size));
    for (std::uint64_t at = 0; at < size && failed.ok();) {
        auto got = ::pread(input_.get(), piece.data(), std::min<std::uint64_t>(kPiece, size - at),
                           static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            failed = Status(Code::Damaged, got == 0 ? "the file became shorter" : "read error");
            break;
        }
        fault_point(Stage::Fill);
        failed = writer_->append(piece.data(), static_cast<std::size_t>(got));
        at += static_cast<std::uint64_t>(got);
        if (failed.ok()) advance(at);
    }
    if (!failed.ok()) log_warning("fill failed: " + failed.message());
    if (!failed.ok() || !unchanged(source.place.attributes)) return fail();
    std::uint32_t crc = writer_->crc();
    if (source.keep) {
        auto kept = writer_->commit(crc);
        if (!kept.ok())
            log_warning("could not keep a file: " + kept.status().message());
        else if (source.kept)
            source.kept();
    }
    writer_.reset();
    input_.reset();
    end({.crc = crc});
}

void Fill::advance(std::uint64_t bytes) {
    std::vector<Waiter> ready;
    {
        std::lock_guard lock(mutex_);
        progress_.bytes = bytes;
        const auto& chunks = writer_->chunks();
        std::size_t whole = bytes == file_.size ? chunks.size() : bytes / kChunk;
        while (chunks_.size() < whole) chunks_.push_back(chunks[chunks_.size()]);
        auto waiting = std::partition(waiters_.begin(), waiters_.end(),
                                      [&](const Waiter& waiter) { return waiter.bytes >= bytes; });
        ready.assign(std::make_move_iterator(waiting), std::make_move_iterator(waiters_.end()));
        waiters_.erase(waiting, waiters_.end());
    }
    for (auto& waiter : ready) waiter.wake();
}

void Fill::fail() {
    writer_.reset();
    input_.reset();
    end({.failed = true});
}

void Fill::end(Progress last) {
    std::vector<Waiter> ready;
    {
        std::lock_guard lock(mutex_);
        last.bytes = progress_.bytes;
        last.ended = true;
        progress_ = last;
        ready.swap(waiters_);
    }
    for (auto& waiter : ready) waiter.wake();
}

std::uint32_t crc_of(const std::vector<std::uint32_t>& chunks, std::uint64_t file_size,
                     const Range& range) {
    std::uint32_t crc = 0;
    for (std::uint64_t at = range.begin; at < range.begin + range.size; at += kChunk)
        crc = crc32c_join(crc, chunks[at / kChunk], std::min(kChunk, file_size - at));
    return crc;
}

Status wait_until_whole(Growing& growing, Duration deadline) {
    auto ended = std::make_shared<std::promise<void>>();
    growing.wake_beyond(~std::uint64_t{0}, [ended] { ended->set_value(); });
    auto end = ended->get_future();
    for (std::uint64_t before = 0; end.wait_for(deadline) != std::future_status::ready;) {
        std::uint64_t now = growing.progress().bytes;
        if (now == before)
            return Status(Code::DeadlineMissed, "the shared file system delivers it too slowly");
        before = now;
    }
    if (growing.progress().failed)
        return Status(Code::NotCached, "it changed while it was read, or reading it failed");
    return {};
}

// A fill on its way. One that the pool drops ends too, or whoever asks for that file would wait for
// it from then on.
class Fills::Run {
  public:
    Run(Fills& fills, std::shared_ptr<Fill> fill, Source source)
        : fills_(fills), fill_(std::move(fill)), source_(std::move(source)) {}
    Run(const Run&) = delete;
    ~Run() {
        if (!fill_->progress().ended) fill_->fail();
        fills_.counters_.bytes += fill_->progress().bytes;
        fills_.finish(source_.key);
    }
    void operator()() { fill_->run(source_); }

  private:
    Fills& fills_;
    std::shared_ptr<Fill> fill_;
    const Source source_;
};

bool Fills::is_due(const std::string& key) {
    auto now = Clock::now();
    std::erase_if(seldom_, [&](const auto& entry) { return entry.second < now - kSeldom; });
    return seldom_.emplace(key, now).second;
}

Result<std::shared_ptr<Fill>> Fills::join(Source source, Duration deadline) {
    std::shared_ptr<Fill> fill;
    bool first = false;
    {
        std::lock_guard lock(mutex_);
        auto& entry = running_[source.key];
        if (!entry) {
            if (source.seldom && !is_due(source.key)) {
                running_.erase(source.key);
                return Status(Code::NotCached, "it was read a moment ago and could not be kept");
            }
            entry = std::make_shared<Fill>();
            first = true;
        }
        fill = entry;
    }
    if (!first) {
        ++counters_.joined;
        Status status = fill->wait_until_open(deadline);
        if (status.ok()) return fill;
        // The one we joined may have found it stored by the fill before.
        if (store_.find(source.key)) return std::shared_ptr<Fill>();
        return status;
    }
    // The last fill may have ended between the caller's look and ours.
    bool stored = store_.find(source.key) != nullptr;
    Status status =
        stored ? Status(Code::Busy, "stored meanwhile; try again") : fill->open(store_, source);
    if (!status.ok()) finish(source.key);
    fill->opened(status);
    if (stored) return std::shared_ptr<Fill>();
    if (!status.ok()) return status;
    ++counters_.started;
    bool small = source.place.attributes.size <= kPiece;
    // Shared, since what the pool runs must be copyable.
    auto run = std::make_shared<Run>(*this, fill, std::move(source));
    // Nobody could read along, and a change of threads would take longer than the reading.
    if (small)
        (*run)();
    else
        pool_.run(lane_, [run = std::move(run)] { (*run)(); });
    return fill;
}

void Fills::finish(const std::string& key) {
    std::lock_guard lock(mutex_);
    running_.erase(key);
}

}  // namespace holdfast
