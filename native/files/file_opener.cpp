#include "files/file_opener.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

#include "base/crc32c.hpp"
#include "base/fault.hpp"
#include "base/scratch.hpp"
#include "base/thread.hpp"
#include "files/document.hpp"
#include "files/lanes.hpp"
#include "rpc/body.hpp"
#include "rpc/wire.hpp"
#include "store/messages.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kMostTelling = 16;  // members that are told of a change at the same time
constexpr int kMostRounds = 3;            // in which they are, if there are refreshes meanwhile
constexpr std::size_t kCopyBytes = 256 << 10;

Status not_cached(const std::string& path, const std::string& why) {
    return Status(Code::NotCached,
                  "'" + path + "' " + why + "; read it from the shared file system");
}

}  // namespace

void FileOpener::set(const TrustSettings& settings) {
    Lock lock(mutex_);
    trust_.set(settings);
}

Status FileOpener::publish(const std::string& table) {
    auto opened = AttributeTable::open(table, [this] { files_.distrust(); });
    if (!opened.ok()) return opened.take_status();
    table_ = std::move(*opened);
    files_.catalog().watch([table = table_.get()] { table->advance_epoch(); });
    store_.watch_lost([table = table_.get()] { table->advance_epoch(); });
    return {};
}

void FileOpener::add_to(Handlers& handlers) {
    handlers.add(Op::Open, [this](Request& request) { return handle(request); });
    handlers.add(Op::Invalidate, [this](Request& request) { return invalidate(request); });
}

Outcome FileOpener::handle(const Request& request) {
    if (!request.local || !request.header.has(kDescriptor))
        return Answer(
            Status(Code::BadInput, "files can only be opened through an agent on the same host"));
    auto order = FileOrder::decode(request.meta);
    if (!order.ok()) return Answer(order.take_status());
    if (table_) table_->keep_beating();
    std::uint64_t cache_epoch = table_ ? table_->cache_epoch() : 0;
    auto cached = files_.cached(*order);
    // A hit waits for the shared file system only if programs were never told of the root.
    auto look = table_ ? table_->look_at(order->root, cached.has_value()) : std::function<void()>();
    if (cached) {
        auto copy = std::make_shared<FileCopy>(std::move(*cached));
        auto serve = [this, order = *order, copy, cache_epoch]() -> std::optional<Answer> {
            if (!files_.open(*copy)) return std::nullopt;
            record_name(order, *copy, cache_epoch);
            return pass(order, Passed{copy->attributes, std::move(copy->file)});
        };
        // Those on the disk are not held up by what is fetched. What was good when it was asked for
        // is good enough, also if all is to be revalidated from now on.
        if (look || copy->object->tier == Tier::Disk)
            return Blocking{look ? lane::kFetch : lane::kDisk,
                            [serve, look, path = order->path](Body&) -> Answer {
                                if (look) look();
                                auto answer = serve();
                                return answer ? std::move(*answer)
                                              : not_cached(path, "was just evicted");
                            }};
        if (auto answer = serve()) return std::move(*answer);
    }
    auto fetch = [this, look, order = std::move(*order)](Body& body) {
        Wait wait(incidents_, "open", order.path, "", body.deadline(), body.arrived());
        if (look) look();
        Answer answer = pass(order, join(order, body.deadline()));
        wait.ended(answer.status);
        return answer;
    };
    return Blocking{lane::kFetch, std::move(fetch), true};
}

void FileOpener::record_name(const FileOrder& order, const FileCopy& copy,
                             std::uint64_t cache_epoch) {
    if (table_)
        table_->record_name(order, store_.path_of(*copy.object), copy.file.get(), cache_epoch);
}

Answer FileOpener::pass(const FileOrder& order, Result<Passed> passed) {
    if (!passed.ok()) return passed.take_status();
    // A part looks like no file that anybody may ask about.
    if (table_ && !passed->part)
        table_->record(order, passed->attributes, passed->descriptor.get());
    ++(passed->fetched ? counters_.fetched : counters_.local);
    Answer answer;
    answer.flags = kDescriptor;
    answer.meta = order.part ? PartReply{passed->attributes,
                                         passed->part.value_or(Range{0, passed->attributes.size})}
                                   .encode()
                             : passed->attributes.encode();
    answer.descriptors.push_back(std::move(passed->descriptor));
    return answer;
}

// ---- changes ---------------------------------------------------------------------------------

Outcome FileOpener::invalidate(const Request& request) {
    auto message = InvalidateMessage::decode(request.meta);
    if (!message.ok()) return Answer(message.take_status());
    if (!message->notice.empty())
        return Blocking{lane::kDisk, [this, notice = message->notice](Body&) -> Answer {
                            Answer answer;
                            answer.meta = files_.hear_invalidation(notice);
                            return answer;
                        }};
    return Blocking{lane::kInvalidate, [this, path = message->path](Body& body) -> Answer {
                        auto notices = files_.invalidate(path);
                        for (int i = 0; i < kMostRounds && !notices.empty(); ++i) {
                            std::vector<std::string> again;
                            for (auto& notice : notices)
                                tell_all(path, notice, body.deadline(), again);
                            files_.learn(again);
                            notices = std::move(again);
                        }
                        return {};
                    }};
}

// Those who do not hear it now hear of it when they compare notices. Until then their programs may
// open copies by name, as long as they believe that their agent lives. Those who know of a refresh
// that we have not heard of say which notice invalidates the path there instead: all are to know
// that one, since the one that we made counts for nothing beside the refresh.
void FileOpener::tell_all(const std::string& path, const std::string& notice, Duration deadline,
                          std::vector<std::string>& again) {
    PlacementPtr placement = placement_.get();
    if (!placement) return;
    // What is left is for those who do not answer.
    TimePoint end =
        Clock::now() + std::max(deadline * 3 / 4 - AttributeTable::kFresh, deadline / 4);
    const std::size_t count = placement->numbers.size();
    const std::string meta = InvalidateMessage{"", notice}.encode();
    std::atomic<std::size_t> next{0};
    std::atomic<bool> all{true};
    auto tell = [&] {
        for (std::size_t node; (node = next++) < count;) {
            std::uint64_t member = placement->numbers[node];
            if (member == placement_.self()) continue;
            Duration wait;
            {
                Lock lock(mutex_);
                wait = std::min<Duration>(trust_.deadline(member), end - Clock::now());
            }
            if (wait <= Duration::zero()) {
                all = false;
                continue;
            }
            Wait waiting(incidents_, "invalidate", path, placement->addresses[node], wait);
            auto told =
                peers_.ask(placement->addresses[node], {.op = Op::Invalidate, .meta = meta}, wait);
            waiting.ended(told);
            if (told.ok()) {
                Lock lock(mutex_);
                if (!told->meta().empty()) again.push_back(told->meta());
                continue;
            }
            all = false;
            if (is_failure(told.status())) failed(member, path, told.status());
        }
    };
    std::vector<std::thread> others;
    while (others.size() + 2 < std::min(count, kMostTelling)) {
        try {
            others.push_back(start_thread(tell));
        } catch (const std::system_error&) {  // the limit of the user or of the cgroup
            break;
        }
    }
    tell();
    for (auto& thread : others) thread.join();
    // One that is stopped may have been so since a moment ago only.
    if (!all) std::this_thread::sleep_for(AttributeTable::kFresh);
}

// ---- our own ---------------------------------------------------------------------------------

Result<Passed> FileOpener::local(const FileOrder& order, Duration deadline, Fetch& own) {
    Wait wait(incidents_, "fill", order.path, "", deadline);
    auto copy = files_.fetch(order, deadline);
    if (!copy.ok()) {
        wait.ended(copy);
        return copy.take_status();
    }
    own.fills(copy->growing);
    bool in_parts = copy->growing && order.part && copy->attributes.size > kWholeBytes;
    auto passed =
        in_parts ? copy_part(order, *copy, deadline) : when_whole(std::move(*copy), deadline);
    wait.ended(passed);
    return passed;
}

Result<Passed> FileOpener::when_whole(FileCopy copy, Duration deadline) {
    if (!copy.growing) return Passed{copy.attributes, std::move(copy.file)};
    // Those who wait for us must hear us before their deadline ends; the fill goes on.
    if (Status status = wait_until_whole(*copy.growing, deadline * 3 / 4); !status.ok())
        return status;
    // Kept or not, it is whole, and nobody writes to it any more.
    auto descriptor = reopen(*copy.growing->file().file);
    if (!descriptor.ok()) return descriptor.take_status();
    return Passed{copy.attributes, std::move(*descriptor)};
}

Result<Passed> FileOpener::copy_part(const FileOrder& order, const FileCopy& copy,
                                     Duration deadline) {
    auto piece = files_.part(order, copy, deadline * 3 / 4);
    if (!piece.ok()) return piece.take_status();
    const FileSlice& from = piece->slice;
    auto file = SingleUse::make(store_);
    if (!file.ok()) return file.take_status();
    if (Status status = file->set_size(from.size); !status.ok()) return status;
    Scratch bytes(kCopyBytes);
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < from.size;) {
        auto got = ::pread(from.file->get(), bytes.data(),
                           std::min<std::uint64_t>(kCopyBytes, from.size - at),
                           static_cast<off_t>(from.offset + at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return Status(Code::NotCached, order.path + " cannot be read to its end");
        auto size = static_cast<std::size_t>(got);
        crc = crc32c(crc, bytes.data(), size);
        if (Status status = file->write(bytes.data(), size); !status.ok()) return status;
        at += size;
    }
    if (crc != piece->crc)
        return Status(Code::NotCached,
                      "the bytes of " + order.path + " do not match their checksum");
    auto descriptor = std::move(*file).seal();
    if (!descriptor.ok()) return descriptor.take_status();
    return Passed{copy.attributes, std::move(*descriptor), false, Range{from.offset, from.size}};
}

// ---- one fetch for all who ask at once -------------------------------------------------------

Result<Passed> FileOpener::join(const FileOrder& order, Duration deadline) {
    // Whoever wants to know the file as it is now gets nothing that was looked at before.
    if (order.validate) {
        Fetch alone;
        return find(order, deadline, alone);
    }
    auto share = [](const Result<Passed>& outcome) -> Result<Passed> {
        if (!outcome.ok()) return outcome.status();
        auto descriptor = reopen(outcome->descriptor);
        if (!descriptor.ok()) return descriptor.take_status();
        return Passed{outcome->attributes, std::move(*descriptor), outcome->fetched, outcome->part};
    };
    // Nor whoever comes after a refresh what was fetched before it.
    std::string name = order.encode() + MetaWriter().number(files_.catalog().epoch()).take();
    auto flight = fetches_.board(name);
    if (flight.leads()) {
        auto outcome = find(order, deadline, flight.shared());
        return flight.close() ? share(flight.give(std::move(outcome))) : std::move(outcome);
    }
    // As long as bytes come: the shared file system may hang, and threads are few.
    for (auto before = flight.shared().bytes(); !flight.wait_for(deadline * 3 / 4);) {
        auto now = flight.shared().bytes();
        if (now == before) return not_cached(order.path, "did not arrive in time");
        before = now;
    }
    if (!flight.value()) return not_cached(order.path, "was given up by who fetched it");
    return share(*flight.value());
}

void FileOpener::Fetch::fills(std::shared_ptr<Growing> growing) {
    Lock lock(mutex_);
    growing_ = std::move(growing);
}

std::uint64_t FileOpener::Fetch::bytes() const {
    Lock lock(mutex_);
    return received_ + (growing_ ? growing_->progress().bytes : 0);
}

// ---- from whom -------------------------------------------------------------------------------

Result<Passed> FileOpener::find(const FileOrder& order, Duration deadline, Fetch& own) {
    if (files_.invalidated().contains(order.path))
        return not_cached(order.path, "was changed and has not been refreshed since");
    PlacementPtr placement = placement_.get();
    if (!placement) return not_cached(order.path, "has no owners that this agent knows of yet");
    // Those who wait for us must hear us before their deadline ends.
    TimePoint end = Clock::now() + deadline * 3 / 4;

    // A second copy of ours spares the way to the first owner, but is not worth a fill.
    std::string key = file_prefix(order.path);
    if (order.copies > 1) {
        auto holders = placement->owners(key, order.copies);
        if (holders.contains(placement_.self()) && *holders.begin() != placement_.self())
            if (auto copy = files_.validated(order); copy.ok())
                return Passed{copy->attributes, std::move(copy->file)};
    }

    OwnerWalk walk(placement, key, order.on_failure);
    FileOrder asked = order;
    while (auto owner = next(walk)) {
        Duration left = end - Clock::now();
        if (left <= Duration::zero()) break;
        bool is_self = owner->member == placement_.self();
        auto ask = [&] {
            return is_self ? local(asked, left, own) : fetch(*owner, asked, left, own);
        };
        asked.stands_in = walk.stands_in();
        auto passed = ask();
        if (!passed.ok() && passed.status().code() == Code::StaleView) {
            asked.stands_in = true;  // views will agree soon; nobody waits for that
            passed = ask();
        }
        if (passed.ok() || passed.status().code() == Code::BadInput) return passed;
        // Only a node that fails is a reason to ask another: what one says who lives is final.
        if (is_self || !is_failure(passed.status()))
            return not_cached(order.path, "is not cached: " + passed.status().message());
        walk.failed();
    }
    if (walk.aborts())
        return Status(Code::Unavailable, "'" + order.path + "': " + walk.reason(), walk.last());
    return not_cached(order.path, "has no owner that answers");
}

std::optional<FileOpener::Owner> FileOpener::next(OwnerWalk& walk) {
    Lock lock(mutex_);
    auto node = walk.next(trust_, Clock::now());
    if (!node) return std::nullopt;
    std::uint64_t member = walk.placement().numbers[*node];
    return Owner{member, walk.placement().addresses[*node], trust_.deadline(member)};
}

Result<Passed> FileOpener::fetch(const Owner& owner, const FileOrder& order, Duration left,
                                 Fetch& own) {
    bool whole_wait = owner.deadline <= left;
    for (bool again = false;; again = true) {
        bool began = false;
        Duration wait = std::min(owner.deadline, left);
        Wait waiting(incidents_, "fetch", order.path, owner.address, wait);
        auto passed = receive(owner, order, wait, own, began);
        if (passed.ok())
            waiting.ended(Status(), passed->attributes.size);
        else
            waiting.ended(passed);
        if (passed.ok()) return passed;
        const Status& status = passed.status();
        // A body that breaks off: it died, or its fill failed. Whether it lives, a second request
        // tells at once. Bytes that do not match: it has looked at its copy again.
        bool broke_off = began && status.code() == Code::Unavailable;
        if (!again && (broke_off || (began && status.code() == Code::Damaged))) continue;
        if (broke_off) return not_cached(order.path, "was cut off while it was transferred");
        if (status.code() == Code::Full) return files_.left_to_source(status);
        if (is_failure(status) && (whole_wait || status.code() != Code::DeadlineMissed))
            failed(owner.member, order.path, status);
        return passed;
    }
}

Result<Passed> FileOpener::receive(const Owner& owner, const FileOrder& order, Duration wait,
                                   Fetch& own, bool& began) {
    const std::string& address = owner.address;
    TimePoint asked = Clock::now();
    std::optional<Result<SingleUse>> made;
    Question question{.op = Op::Read, .meta = order.encode(), .in_pieces = true};
    question.meanwhile = [&] { made.emplace(SingleUse::make(store_)); };
    auto exchange = peers_.ask(address, question, wait);
    if (exchange.ok() || !is_failure(exchange.status()))
        answered(owner.member, Clock::now() - asked);
    if (!exchange.ok()) return exchange.take_status();
    began = true;
    auto attributes = Attributes::decode(exchange->meta());
    if (!attributes.ok()) return attributes.take_status();
    auto range = order.range(attributes->size);
    if (!range.ok()) return range.take_status();
    std::uint64_t size = exchange->reply().body_bytes;
    if (size != range->size)
        return Status(Code::Damaged, "its size does not match its attributes", address);
    auto& file = *made;
    if (!file.ok()) return file.take_status();
    if (Status status = file->set_size(size); !status.ok()) return status;
    Status status = exchange->read_body([&](const char* data, std::size_t piece) {
        fault_point(Stage::Fetch);
        own.received(piece);
        return file->write(data, piece);
    });
    if (status.code() == Code::Damaged) verify_copy(peers_, address, order, exchange->meta(), wait);
    if (!status.ok()) return status;
    auto descriptor = std::move(*file).seal();
    if (!descriptor.ok()) return descriptor.take_status();
    counters_.fetched_bytes += size;
    Passed passed{*attributes, std::move(*descriptor), true};
    if (size != attributes->size) passed.part = *range;
    return passed;
}

void FileOpener::answered(std::uint64_t member, Duration first_byte) {
    Lock lock(mutex_);
    trust_.answered(member, first_byte);
}

void FileOpener::failed(std::uint64_t member, const std::string& path, const Status& status) {
    ++counters_.failures;
    {
        Lock lock(mutex_);
        trust_.failed(member, status.code() == Code::DeadlineMissed, Clock::now());
    }
    events_.push(event::Doubted{member, path, status});
}

}  // namespace holdfast
