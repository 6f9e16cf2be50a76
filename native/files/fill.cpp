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
    Lock lock(mutex_);
    return progress_;
}

void Fill::wake_beyond(std::uint64_t bytes, std::function<void()> wake) {
    {
        Lock lock(mutex_);
        if (progress_.bytes <= bytes && !progress_.ended) {
            waiters_.push_back({bytes, std::move(wake)});
            return;
        }
    }
    wake();
}

Result<std::uint32_t> Fill::wait_for(const Range& range, Duration deadline) {
    std::uint64_t end = range.begin + range.size;
    auto there = std::make_shared<std::promise<void>>();
    wake_beyond(end - 1, [there] { there->set_value(); });
    if (there->get_future().wait_for(deadline) != std::future_status::ready)
        return Status(Code::NotCached, "this part has not arrived yet");
    Lock lock(mutex_);
    if (progress_.bytes < end || progress_.failed)
        return Status(Code::NotCached, "it changed while it was read, or reading it failed");
    return crc_of(chunks_, file_.size, range);
}

Status Fill::open(Store& store, const FillOrder& source) {
    std::uint64_t size = source.place.attributes.size;
    // Who gets nothing from us opens the original: nobody opens it in vain before that.
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

Growing::Progress Fill::run(const FillOrder& source) {
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
    if (!failed.ok() || !unchanged(source.place.attributes)) return {.failed = true};
    std::uint32_t crc = writer_->crc();
    if (source.keep) {
        auto kept = writer_->commit(crc);
        if (!kept.ok())
            log_warning("could not keep a file: " + kept.status().message());
        else if (source.kept)
            source.kept();
    }
    return {.crc = crc};
}

void Fill::advance(std::uint64_t bytes) {
    std::vector<Waiter> ready;
    {
        Lock lock(mutex_);
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

void Fill::close() {
    writer_.reset();
    input_.reset();
}

void Fill::end(Progress last) {
    std::vector<Waiter> ready;
    {
        Lock lock(mutex_);
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

// A fill on its way. One that the pool drops ends too, or its readers would wait for ever.
// Its flight ends first: nobody joins a fill that has failed.
class Fills::Run {
  public:
    Run(Fills& fills, std::shared_ptr<Fill> fill, FillOrder source, Flights::Ticket flight)
        : fills_(fills),
          fill_(std::move(fill)),
          source_(std::move(source)),
          flight_(std::move(flight)) {}
    Run(const Run&) = delete;
    ~Run() {
        if (flight_) end({.failed = true});
    }
    void operator()() { end(fill_->run(source_)); }

  private:
    void end(const Growing::Progress& last) {
        fills_.counters_.bytes += fill_->progress().bytes;
        fill_->close();
        flight_.reset();
        fill_->end(last);
    }

    Fills& fills_;
    std::shared_ptr<Fill> fill_;
    const FillOrder source_;
    std::optional<Flights::Ticket> flight_;
};

bool Fills::is_due(const std::string& key) {
    auto now = Clock::now();
    Lock lock(mutex_);
    std::erase_if(seldom_, [&](const auto& entry) { return entry.second < now - kSeldom; });
    return seldom_.emplace(key, now).second;
}

Result<std::shared_ptr<Fill>> Fills::join(FillOrder source, Duration deadline) {
    auto flight = flights_.board(source.key);
    if (flight.leads()) return start(std::move(source), std::move(flight));
    if (!flight.wait_for(deadline))
        return Status(Code::DeadlineMissed, "the shared file system did not open the file in time");
    if (!flight.value()) return Status(Code::NotCached, "whoever opened the file gave up");
    return *flight.value();
}

Result<std::shared_ptr<Fill>> Fills::start(FillOrder source, Flights::Ticket flight) {
    // The last fill may have ended between the caller's look and ours.
    if (store_.find(source.key)) return flight.land(std::shared_ptr<Fill>());
    if (source.seldom && !is_due(source.key))
        return flight.land(
            Status(Code::NotCached, "it was read a moment ago and could not be kept"));
    auto fill = std::make_shared<Fill>();
    if (Status status = fill->open(store_, source); !status.ok()) return flight.land(status);
    ++counters_.started;
    flight.give(fill);
    bool small = source.place.attributes.size <= kPiece;
    // Shared, since what the pool runs must be copyable.
    auto run = std::make_shared<Run>(*this, fill, std::move(source), std::move(flight));
    // Nobody could read along, and a change of threads would take longer than the reading.
    if (small)
        (*run)();
    else
        pool_.run(lane_, [run = std::move(run)] { (*run)(); });
    return fill;
}

}  // namespace holdfast
