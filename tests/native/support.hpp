// What the native tests share: places that vanish, bytes that repeat, agents to talk to.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.hpp"
#include "agent/agent_client.hpp"
#include "agent/lanes.hpp"
#include "base/crc32c.hpp"
#include "base/hmac.hpp"
#include "rpc/body.hpp"
#include "rpc/frame.hpp"

namespace holdfast {

std::ostream& operator<<(std::ostream& out, Code code);

namespace test {

using namespace std::chrono_literals;

constexpr auto kDeadline = 20s;  // far beyond what anything takes; only a hang misses it
inline const std::string kKey(32, 'k');

// A directory that goes with everything in it.
class TempDir {
  public:
    TempDir();
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    std::string path() const { return path_.string(); }

  private:
    std::filesystem::path path_;
};

std::string hex(const Digest& digest);
std::string random_bytes(std::size_t size, std::uint64_t seed);
std::string read_file(const std::string& path);
std::string all_of(const Fd& fd);  // without moving its offset
void write_file(const std::string& path, std::string_view bytes);
std::size_t files_in(const std::string& directory);
std::size_t open_descriptors();
std::size_t heap_bytes();  // allocated at this moment

// Waits until `happened`, at most kDeadline; gives its last value.
bool eventually(const std::function<bool()>& happened);

// Runs `child` in a forked process and gives its exit code.
int in_child(const std::function<int()>& child);
// The same, by an ordinary user: one whom limits and permissions bind.
int in_child_as_nobody(const std::function<int()>& child);

struct StoreDir {
    explicit StoreDir(std::uint64_t memory = 64 << 20, std::uint64_t disk = 64 << 20,
                      bool huge_pages = true);
    TempDir dir;
    std::unique_ptr<Store> store;
    std::string tier(Tier which) const { return dir / (which == Tier::Memory ? "mem" : "disk"); }
};

// Writes an object in one go.
Result<ObjectPtr> put_as(Store& store, Store::NewObject wanted, std::string_view bytes);
Result<ObjectPtr> put(Store& store, const std::string& key, std::string_view bytes);
std::string contents(Store& store, const std::string& key);

// An agent that listens on a Unix socket and on TCP. At first its view has only itself.
class Node {
  public:
    explicit Node(std::uint64_t memory = 256 << 20, std::uint64_t disk = 256 << 20,
                  const std::string& listen = "tcp:127.0.0.1:0", Silence silence = {});
    ~Node();

    Store& store() { return agent_->store(); }
    Agent& agent() { return *agent_; }
    std::string tier(Tier which) const { return dir_ / (which == Tier::Memory ? "mem" : "disk"); }
    void stop() { agent_.reset(); }
    // Copies an object from another, as restoration does.
    Result<ObjectPtr> pull(const Pull& wanted) {
        return agent_->operations().pull_here(wanted, kDeadline);
    }

    const std::uint64_t number;  // as a member
    std::string name() const { return "node" + std::to_string(number); }
    std::string local, tcp;

  private:
    TempDir dir_;
    std::unique_ptr<Agent> agent_;
};

// One view for all of them, with these rosters.
constexpr const char* kRosters[] = {"00000000", "00000001"};
void agree(const std::vector<Node*>& nodes, std::uint64_t identity = 1);
// A key that belongs to exactly these, in this order, once they agree.
std::string key_of(const std::vector<Node*>& owners, const std::string& stem = "key");
// A put over TCP to these owners.
Status put(AgentClient& remote, const std::vector<Node*>& owners, const std::string& key,
           std::string_view bytes, Tier tier = Tier::Memory);

// All of an object through a client.
Result<std::string> get(AgentClient& remote, const std::string& address, const GetMessage& message);
Result<std::string> read(AgentClient& remote, const std::string& address, const FileOrder& order);
// What the tree of a path brings to a program of a node.
Result<std::string> ask_tree(AgentClient& remote, const std::string& address,
                             const TreeOrder& order);
Result<std::string> body_of(Result<Exchange> exchange);

// A connection on which a test writes what it likes.
Fd raw_connection(const std::string& address);
bool send_all(int fd, std::string_view bytes);
std::string receive_some(int fd, std::size_t most);  // empty: closed, or silent for a second
std::string frame(Header header, std::string_view meta, std::string_view body = {});

// What a program is passed that asks a part of an agent for a copy on the disk, if all is to be
// looked at again before it is read.
template <typename Part>
Fd passed_while_distrusted(Agent& agent, Part& part, std::string meta) {
    Request request{.header = {}, .meta = std::move(meta), .local = true};
    request.header.flags = kDescriptor;
    auto handled = part.handle(request);
    auto* work = std::get_if<Blocking>(&handled);
    REQUIRE(work);
    CHECK(work->lane == lane::kDisk);
    agent.files().distrust();
    Body body(Channel(Fd()), request.header, "", Clock::now());
    Answer answer = work->run(body);
    REQUIRE(answer.status.ok());
    handled = part.handle(request);  // whoever asks now waits for that look
    REQUIRE(std::get_if<Blocking>(&handled));
    CHECK(std::get<Blocking>(handled).lane != lane::kDisk);
    return std::move(answer.descriptors.at(0));
}

}  // namespace test
inline std::vector<Notice> tombstones(const std::vector<std::string>& keys) {
    std::vector<Notice> notices;
    for (auto& key : keys) notices.push_back({Topic::Tombstone, key});
    return notices;
}

inline std::vector<std::string> all_notices(Store& store) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 0; i < Notices::kBuckets; ++i) all.push_back(i);
    return store.notices_in(all);
}

}  // namespace holdfast
