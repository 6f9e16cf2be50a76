// Peers that hold the key and lie, or are mistaken: what they answer is not believed.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "rpc/server.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// Asks one who answers with what `lie` makes of the right header.
Status ask_one_who(const std::function<void(Header&)>& lie) {
    TempDir dir;
    auto address = Address::parse("unix:" + (dir / "socket"));
    Fd listener(std::move(*listen_on(*address)));
    ::fcntl(listener.get(), F_SETFL, 0);
    std::thread liar([&] {
        Fd fd(::accept(listener.get(), nullptr, nullptr));
        char head[kHeaderBytes];
        if (::recv(fd.get(), head, sizeof head, MSG_WAITALL) != sizeof head) return;
        Header header{.op = Op::Probe, .flags = kReply, .request = decode_header(head)->request};
        lie(header);
        send_all(fd.get(), frame(header, "meta"));
        receive_some(fd.get(), 1);
    });
    ConnectionPool pool(kKey);
    Status status;
    {
        auto reply = pool.ask(address->text, {.op = Op::Probe, .meta = ""}, kDeadline);
        if (!reply.ok()) status = reply.take_status();
    }
    pool.close_idle();
    liar.join();
    return status;
}

// Whatever file it is asked for, it says another size than it sends bytes.
class Liar : public Handler {
  public:
    Liar() : server(*this, {.job_key = kKey}) {
        auto bound = server.listen("tcp:127.0.0.1:0");
        REQUIRE(bound.ok());
        tcp = *bound;
        server.start();
    }
    ~Liar() override { server.stop(); }
    Outcome handle(Request request) override {
        Attributes attributes{.mode = S_IFREG | 0444, .nlink = 1, .inode = 7, .size = announced};
        bool tree = request.header.op == Op::Tree;
        asked += tree || request.header.op == Op::Read;
        Answer answer;
        answer.meta = tree ? TreeReply{.attributes = attributes}.encode() : attributes.encode();
        answer.body = HeapSlice{nullptr, bytes.data(), bytes.size()};
        answer.body_crc = crc32c(0, bytes.data(), bytes.size());
        return answer;
    }
    const std::string bytes = random_bytes(100'000, 1);
    std::atomic<std::uint64_t> announced{100'000};
    std::atomic<int> asked{0};
    Server server;
    std::string tcp;
};

// An agent, and the liar as the only other member.
struct Company {
    Company() {
        std::vector<std::string> names{node.name(), "zz-liar"}, addresses{node.tcp, liar.tcp};
        node.agent().set_placement(
            Placement::make(Ring(names, 64), {node.number, 99}, addresses, 1));
    }
    // About half of these belong to the liar.
    std::string path(int number) {
        std::string made = shared / std::to_string(number);
        write_file(made, "true");
        return made;
    }
    Liar liar;
    Node node;
    TempDir shared;
    AgentClient remote{kKey};
};

}  // namespace

TEST_CASE("a reply to another request, of another kind, or that is none is not believed") {
    CHECK(ask_one_who([](Header&) {}).ok());
    CHECK(ask_one_who([](Header& header) { ++header.request; }).code() == Code::Damaged);
    CHECK(ask_one_who([](Header& header) { header.op = Op::Stat; }).code() == Code::Damaged);
    CHECK(ask_one_who([](Header& header) { header.flags = 0; }).code() == Code::Damaged);
}

TEST_CASE("a file of another size than its bytes is not passed to a program") {
    Company company;
    auto open = [&](int number) {
        FileOrder order{.root = company.shared.path(),
                        .path = company.path(number),
                        .on_failure = OnFailure::Redirect};
        return company.remote.open_file(company.node.local, order, kDeadline);
    };
    int number = -1;
    while (company.liar.asked == 0) {
        auto opened = open(++number);
        REQUIRE(opened.ok());
        CHECK(all_of(opened->take_descriptor()) ==
              (company.liar.asked == 0 ? "true" : company.liar.bytes));
    }
    for (std::uint64_t lie : {99'999, 100'001, 0}) {
        company.liar.announced = lie;
        CHECK(open(number).status().code() == Code::NotCached);
    }
    CHECK(company.liar.asked > 3);
}

TEST_CASE("nor is one that comes down a tree, nor a part of one") {
    Company company;
    auto ask = [&](int number, TreeOrder::Kind kind) -> Result<std::string> {
        TreeOrder order{.kind = kind, .root = company.shared.path(), .path = company.path(number)};
        return ask_tree(company.remote, company.node.local, order);
    };
    for (auto kind : {TreeOrder::Kind::File, TreeOrder::Kind::Part}) {
        company.liar.asked = 0;
        for (int number = 0; company.liar.asked < 10; ++number) {
            company.liar.announced = number % 2 == 0 ? 99'999 : 100'001;
            auto got = ask(number, kind);
            CHECK((!got.ok() || *got == "true"));
        }
    }
}
