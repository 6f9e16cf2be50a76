// Windows: who owns a unit, who stands in, and that without a roster nobody owns it.
#include "placement/windows.hpp"

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

const std::string kHead = "@space/0123abcd/s:v/2+1/";

std::vector<WindowMember> members(int count, int without = -1) {
    std::vector<WindowMember> live;
    for (int i = 0; i < count; ++i)
        if (i != without)
            live.push_back(
                {100u + i, "n" + std::to_string(i), "", "", i == 5 ? "spare" : "compute"});
    return live;
}

Roster roster() {
    return {"0123abcd", {"n0", "n1", "n2", "n3"}, "compute"};
}

std::vector<std::uint64_t> owners(const WindowTable& table, const std::string& key,
                                  std::size_t count = 16,
                                  const std::vector<std::uint64_t>& without = {}) {
    std::vector<std::uint64_t> found(count);
    found.resize(table.owners(key, without, found));
    return found;
}

using Numbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a unit stands on its slot, and its copy behind the units of its stripe") {
    WindowTable table({roster()}, members(6));
    CHECK(owners(table, kHead + "0.0/0:4") == Numbers{100, 102});
    CHECK(owners(table, kHead + "0.1/0:4") == Numbers{101, 102});
    CHECK(owners(table, kHead + "3.1/0:4") == Numbers{100, 101});
    CHECK(owners(table, kHead + "0.0/0:4", 1) == Numbers{100});
    CHECK(owners(table, kHead + "0.0/0:4", 0).empty());
    using namespace std::string_literals;
    CHECK(owners(table, kHead + "0.0/0:4\0tail/9.9/"s) == Numbers{100, 102});
}

TEST_CASE("a spare stands in for who is dead or left out, and then the others") {
    CHECK(owners(WindowTable({roster()}, members(6, 0)), kHead + "0.0/0:4") == Numbers{105, 102});
    CHECK(owners(WindowTable({roster()}, members(6)), kHead + "0.0/0:4", 16, {100}) ==
          Numbers{105, 102});
    auto around = owners(WindowTable({roster()}, members(5, 0)), kHead + "0.0/0:4");
    REQUIRE(around.size() == 2);
    CHECK((around[0] == 103 || around[0] == 104));  // outside the window
    CHECK(owners(WindowTable({roster()}, members(1)), kHead + "0.0/0:4") == Numbers{100});
    CHECK(owners(WindowTable({roster()}, {}), kHead + "0.0/0:4").empty());
}

TEST_CASE("a roster with too few nodes gives each unit distinct owners") {
    WindowTable table({{"0123abcd", {"n0", "n1"}, "compute"}}, members(2));
    CHECK(owners(table, kHead + "0.0/0:4") == Numbers{100, 101});
    CHECK(owners(table, kHead + "0.1/0:4") == Numbers{101, 100});
}

TEST_CASE("what names no place in a known roster has no owners, and is not on the ring") {
    WindowTable table({roster()}, members(6));
    for (std::string key : {"@space/01234567/s:v/2+1/0.0/0:4", "@space/0123abcd//2+1/0.0/0:4",
                            "@space/0123abcd/s:v/2+1/4.0/0:4", "@space/0123abcd/s:v/2+1/0.2/0:4",
                            "@space/0123abcd/s:v/02+1/0.0/0:4", "@space/0123abcd/s:v/2+16/0.0/0:4",
                            "@space/0123abcd/s:v/2+1/0.0", "@space/0123abcd", "@space/",
                            "@space/names", "@space/0123abcd/s:v/12345678901234567890+1/0.0/0:4"}) {
        CAPTURE(key);
        CHECK(WindowTable::has(key));
        CHECK(owners(table, key).empty());
    }
    CHECK_FALSE(WindowTable::has("@space/names/run"));
    CHECK_FALSE(WindowTable::has("@spac"));
}

TEST_CASE("rule 4: a put in a window is refused until its roster is known, and then taken") {
    Node a, b;
    AgentClient remote(kKey);
    auto place = [&](Node& node, bool knows) {
        Ring ring({a.name(), b.name()}, 16);
        Numbers numbers;
        std::vector<std::string> addresses;
        std::vector<WindowMember> live;
        for (auto& name : ring.nodes()) {
            Node& one = name == a.name() ? a : b;
            numbers.push_back(one.number);
            addresses.push_back(one.tcp);
            live.push_back({one.number, name, "", "", "compute"});
        }
        std::vector<Roster> known;
        if (knows) known.push_back({"0123abcd", {a.name(), b.name()}, "compute"});
        node.agent().set_placement(Placement::make(ring, numbers, addresses, 7, {}, std::nullopt,
                                                   {}, WindowTable(known, live)));
    };
    using namespace std::string_literals;
    std::string key =
        "@space/0123abcd/s:v/1+1/0.0/0:4\0"
        "\0\0\0\0\0\0\0\0"  // version, start, count, generation
        "\0\0\0\0\0\0\0\4\0\0"s;
    std::string bytes = random_bytes(1000, 1);
    auto put = [&] {
        return remote.put({a.tcp, b.tcp}, {a.number, b.number}, key, bytes, Tier::Memory,
                          kDeadline);
    };
    place(a, true), place(b, false);
    CHECK(put().code() == Code::StaleView);
    CHECK_FALSE(a.store().find(key));
    place(b, true);  // under the same identity
    CHECK(put().ok());
    CHECK(a.store().find(key));
    CHECK(b.store().find(key));
    CHECK(a.store().survey().at(b.number).first == 1);
    place(a, false);
    CHECK(a.store().survey().empty());
    CHECK(a.store().strays(10, "").size() == 1);
}
