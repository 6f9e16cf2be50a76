#include "support.hpp"

#include <dirent.h>
#include <malloc.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <thread>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Debian's gcc comes without the header that declares it.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

#include "rpc/address.hpp"

namespace holdfast {

std::ostream& operator<<(std::ostream& out, Code code) {
    return out << "Code " << static_cast<int>(code);
}

namespace test {

TempDir::TempDir() {
    std::string pattern = std::filesystem::temp_directory_path() / "holdfast-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
}

TempDir::~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string hex(const Digest& digest) {
    std::string text;
    for (unsigned char byte : digest) {
        text.push_back("0123456789abcdef"[byte >> 4]);
        text.push_back("0123456789abcdef"[byte & 15]);
    }
    return text;
}

std::string random_bytes(std::size_t size, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string bytes(size, '\0');
    std::size_t at = 0;
    for (; at + 8 <= size; at += 8) {
        std::uint64_t word = random();
        std::memcpy(bytes.data() + at, &word, 8);
    }
    for (; at < size; ++at) bytes[at] = static_cast<char>(random());
    return bytes;
}

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::string all_of(const Fd& fd) {
    std::string bytes;
    char piece[64 << 10];
    for (;;) {
        auto got = ::pread(fd.get(), piece, sizeof piece, static_cast<off_t>(bytes.size()));
        if (got <= 0) return bytes;
        bytes.append(piece, static_cast<std::size_t>(got));
    }
}

void write_file(const std::string& path, std::string_view bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    REQUIRE(out.good());
}

std::size_t files_in(const std::string& directory) {
    std::size_t count = 0;
    for (auto& entry : std::filesystem::directory_iterator(directory)) {
        bool is_large = entry.path().filename() == "large";  // of a tier: a link to more
        count += is_large ? files_in(entry.path().string() + "/") : 1;
    }
    return count;
}

std::size_t open_descriptors() {
    return files_in("/proc/self/fd");
}

std::size_t heap_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return __sanitizer_get_current_allocated_bytes();
#else
    return ::mallinfo2().uordblks;
#endif
}

int in_child(const std::function<int()>& child) {
    pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        int code = 99;
        try {
            code = child();
        } catch (...) {  // a REQUIRE; the tests that follow are the parent's
        }
        ::_exit(code);
    }
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int in_child_as_nobody(const std::function<int()>& child) {
    constexpr uid_t kNobody = 65534;
    return in_child([&] {
        if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) return 98;
        return child();
    });
}

bool eventually(const std::function<bool()>& happened) {
    auto end = Clock::now() + kDeadline;
    while (!happened()) {
        if (Clock::now() > end) return false;
        std::this_thread::sleep_for(2ms);
    }
    return true;
}

StoreDir::StoreDir(std::uint64_t memory, std::uint64_t disk, bool huge_pages) {
    auto opened =
        Store::open({{{tier(Tier::Memory), memory, huge_pages}, {tier(Tier::Disk), disk}}});
    REQUIRE(opened.ok());
    store = std::move(*opened);
}

Result<ObjectPtr> put_as(Store& store, Store::NewObject wanted, std::string_view bytes) {
    wanted.size = bytes.size();
    auto writer = store.create(std::move(wanted));
    if (!writer.ok()) return writer.take_status();
    if (Status status = writer->append(bytes.data(), bytes.size()); !status.ok()) return status;
    return writer->commit(crc32c(0, bytes.data(), bytes.size()));
}

Result<ObjectPtr> put(Store& store, const std::string& key, std::string_view bytes) {
    return put_as(store, {.key = key}, bytes);
}

std::string contents(Store& store, const std::string& key) {
    ObjectPtr object = store.find(key);
    if (!object) return "<absent>";
    if (object->in_heap) return object->bytes;
    auto file = store.open_file(object);
    if (!file.ok()) return "<" + file.status().message() + ">";
    return all_of(*file);
}

namespace {

std::atomic<std::uint64_t> next_number{1};

}  // namespace

Node::Node(std::uint64_t memory, std::uint64_t disk, const std::string& listen, Silence silence)
    : number(next_number++) {
    AgentOptions options{
        kKey, {{{tier(Tier::Memory), memory, true}, {tier(Tier::Disk), disk}}}, 0, silence};
    auto made = Agent::make(std::move(options));
    REQUIRE(made.ok());
    agent_ = std::move(*made);
    local = "unix:" + (dir_ / "socket");
    REQUIRE(agent_->server().listen(local).ok());
    auto bound = agent_->server().listen(listen);
    REQUIRE(bound.ok());
    tcp = *bound;
    agent_->set_self(number);
    agree({this});
    agent_->server().start();
}

Node::~Node() = default;

void agree(const std::vector<Node*>& nodes, std::uint64_t identity) {
    std::map<std::string, Node*> members;  // in the order of the ring's nodes
    for (Node* node : nodes) members[node->name()] = node;
    std::vector<std::string> names, addresses;
    std::vector<std::uint64_t> numbers;
    std::vector<WindowMember> standing;
    for (auto& [name, node] : members) {
        names.push_back(name);
        numbers.push_back(node->number);
        addresses.push_back(node->tcp);
        standing.push_back({node->number, name, "", "", "compute"});
    }
    // Of up to three nodes any two follow one another in one of these.
    std::vector<Roster> rosters{{kRosters[0], names, "compute"}, {kRosters[1], names, "compute"}};
    std::ranges::reverse(rosters[1].nodes);
    for (Node* node : nodes)
        node->agent().set_placement(Placement::make(Ring(names, 64), numbers, addresses, identity,
                                                    {}, std::nullopt, {},
                                                    WindowTable(rosters, standing)));
}

std::string key_of(const std::vector<Node*>& owners, const std::string& stem) {
    auto placement = owners.front()->agent().placement().get();
    std::vector<std::uint64_t> wanted;
    for (Node* owner : owners) wanted.push_back(owner->number);
    for (int i = 0; i < 100'000; ++i) {
        std::string key = stem + "-" + std::to_string(i);
        if (placement->owners(key, wanted.size()) == wanted) return key;
    }
    FAIL("no key belongs to these owners; do they agree?");
    return {};
}

Status put(AgentClient& remote, const std::vector<Node*>& owners, const std::string& key,
           std::string_view bytes, Tier tier) {
    std::vector<std::string> addresses;
    std::vector<std::uint64_t> numbers;
    for (Node* owner : owners) {
        addresses.push_back(owner->tcp);
        numbers.push_back(owner->number);
    }
    return remote.put(addresses, numbers, key, bytes, tier, kDeadline);
}

Result<std::string> ask_tree(AgentClient& remote, const std::string& address,
                             const TreeOrder& order) {
    auto exchange = remote.connections().ask(
        address, {.op = Op::Tree, .flags = kDescriptor, .meta = order.encode()}, kDeadline);
    if (!exchange.ok()) return exchange.take_status();
    return all_of(exchange->take_descriptor());
}

Result<std::string> body_of(Result<Exchange> exchange) {
    if (!exchange.ok()) return exchange.take_status();
    std::string bytes(exchange->reply().body_bytes, '\0');
    if (Status status = exchange->read_body(bytes.data()); !status.ok()) return status;
    return bytes;
}

// Without asking for signs of life: under a sanitizer, many readers keep an agent longer from
// giving one than a program waits for it.
Result<std::string> get(AgentClient& remote, const std::string& address,
                        const GetMessage& message) {
    return body_of(
        remote.connections().ask(address, {.op = Op::Get, .meta = message.encode()}, kDeadline));
}

Result<std::string> read(AgentClient& remote, const std::string& address, const FileOrder& order) {
    return body_of(
        remote.connections().ask(address, {.op = Op::Read, .meta = order.encode()}, kDeadline));
}

Fd raw_connection(const std::string& text) {
    auto address = Address::parse(text);
    REQUIRE(address.ok());
    Fd fd(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(fd);
    timeval second{1, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    REQUIRE(::connect(fd.get(), address->get(), address->size) == 0);
    return fd;
}

bool send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

std::string receive_some(int fd, std::size_t most) {
    std::string bytes(most, '\0');
    auto got = ::recv(fd, bytes.data(), most, 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

std::string frame(Header header, std::string_view meta, std::string_view body) {
    std::string out(kHeaderBytes, '\0');
    encode_header(header, meta, out.data());
    out.append(meta);
    out.append(body);
    return out;
}

}  // namespace test
}  // namespace holdfast
