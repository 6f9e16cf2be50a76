// What agents put together from pieces, against a plain model.
#include <fcntl.h>

#include <algorithm>

#include "pieces.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

using Kind = BoxesReply::Kind;

struct Got {
    Code code = Code::Ok;
    std::vector<BoxesReply::Entry> entries = {};
    std::vector<std::string> bytes = {};  // of those that came so
    std::vector<Fd> descriptors = {};
};

Got ask(AgentClient& client, const std::string& address, const BoxesMessage& message,
        bool local = false) {
    auto found = client.boxes(address, message, local, kDeadline);
    if (!found.ok()) return {found.status().code()};
    std::string body(found->exchange.reply().body_bytes, '\0');
    REQUIRE(found->exchange.read_body(body.data()).ok());
    Got got{Code::Ok, found->entries, {}, std::move(found->descriptors)};
    std::size_t at = 0;
    for (std::size_t i = 0; i < message.entries.size(); ++i) {
        if (got.entries[i].kind != Kind::Bytes) continue;
        std::size_t size = *message.entries[i].region.box.volume() * message.item;
        got.bytes.push_back(body.substr(at, size));
        at += size;
    }
    CHECK(at == body.size());
    return got;
}

Region random_region(const Box& within, std::mt19937_64& random) {
    std::vector<std::uint32_t> shape;
    for (std::size_t d = 0; d < within.dimensions; ++d) shape.push_back(within.sides[d].count);
    Region region = Region::all_of(random_box(shape, random));
    for (std::size_t d = 0; d < shape.size(); ++d) {
        auto& [start, count] = region.box.sides[d];
        start += within.sides[d].start;
        region.steps[d] = static_cast<std::uint32_t>(1 + random() % 3);
        count = (count - 1) / region.steps[d] + 1;
    }
    return region;
}

// What a reader makes of pieces that were passed.
std::string assembled(const Model& model, const Region& region, const BoxesReply::Entry& entry,
                      std::vector<Fd>::iterator& descriptor) {
    std::string out(*region.box.volume() * model.item, '?');
    for (auto& [box, size] : entry.pieces) {
        std::string bytes = all_of(*descriptor++);
        CHECK(bytes.size() == size);
        Walk(region, box).rows([&](auto from, auto step, auto to, auto count) {
            for (std::uint64_t i = 0; i < count; ++i)
                bytes.copy(out.data() + (to + i) * model.item, model.item,
                           (from + i * step) * model.item);
            return true;
        });
    }
    return out;
}

struct Shape {
    std::vector<std::uint32_t> sides;
    std::size_t item;
    int pieces;
};

// In the heap, in files, and so that elements lie across chunks.
const Shape kShapes[] = {{{50}, 1, 5},         {{9, 11}, 8, 8},
                         {{5, 6, 7}, 3, 12},   {{2, 3, 2, 3, 2, 2, 3, 2}, 4, 20},
                         {{30, 40, 50}, 8, 6}, {{7, 20'000}, 3, 6}};

}  // namespace

TEST_CASE("boxes: random regions of random pieces are what a plain array has") {
    Node node;
    AgentClient client(kKey);
    std::mt19937_64 random(1);
    bool heap = false, files = false;
    int covered = 0, absent = 0, passed = 0;
    for (auto& [sides, item, count] : kShapes) {
        Model model(sides, item);
        std::string head = head_of({&node}, model.cell());
        std::vector<Box> places(1, Box{sides.size()});
        for (std::size_t d = 0; d < sides.size(); ++d) places[0].sides[d].count = sides[d];
        for (int i = 0; i < count; ++i) {
            Box part = places.emplace_back(random_box(sides, random));
            auto stored = put(node.store(), piece(head, part), model.bytes(part));
            REQUIRE(stored.ok());
            ((*stored)->in_heap ? heap : files) = true;
            model.add(part);
            // Neither counts: another version, another size of elements.
            REQUIRE(put(node.store(), piece(head, part, 6), std::string(*part.volume(), 'x')).ok());
        }
        REQUIRE(put(node.store(), piece(head, random_box(sides, random), 5), "").status().code() ==
                Code::BadInput);
        BoxesMessage message{0, static_cast<std::uint32_t>(item)};
        for (int i = 0; i < 100; ++i)
            message.entries.push_back(
                {head, 7, random_region(places[random() % places.size()], random)});
        for (bool local : {false, true}) {
            Got got = ask(client, local ? node.local : node.tcp, message, local);
            REQUIRE(got.code == Code::Ok);
            auto bytes = got.bytes.begin();
            auto descriptor = got.descriptors.begin();
            for (std::size_t i = 0; i < message.entries.size(); ++i) {
                auto& region = message.entries[i].region;
                bool whole = model.has(*region.bounds());
                CHECK((got.entries[i].kind != Kind::Absent) == whole);
                if (!whole) {
                    ++absent;
                } else if (got.entries[i].kind == Kind::Bytes) {
                    ++covered;
                    CHECK(*bytes++ == model.bytes(region));
                } else {
                    ++passed;
                    CHECK(local);
                    CHECK(assembled(model, region, got.entries[i], descriptor) ==
                          model.bytes(region));
                }
            }
            CHECK((descriptor == got.descriptors.end() && bytes == got.bytes.end()));
        }
        message.item += 1;
        Got other = ask(client, node.tcp, message);
        REQUIRE(other.code == Code::Ok);
        for (auto& entry : other.entries) CHECK(entry.kind == Kind::Absent);
    }
    CHECK((heap && files));
    CHECK(covered > 100);
    CHECK(absent > 50);
    CHECK(passed > 5);
}

TEST_CASE("boxes: one element less than all is not covered") {
    Node node;
    AgentClient client(kKey);
    std::string head = head_of({&node}, "0:4,0:4");
    Box whole = box({{0, 4}, {0, 4}});
    for (std::uint32_t row = 0; row < 4; ++row)
        for (std::uint32_t column = 0; column < 4; ++column) {
            std::uint64_t version = row * 4 + column;
            for (std::uint32_t n = 0; n < 16; ++n) {
                if (n == version) continue;
                std::string key = piece(head, box({{n / 4, 1}, {n % 4, 1}}), version);
                REQUIRE(put(node.store(), key, std::string(1, static_cast<char>('a' + n))).ok());
            }
            BoxesMessage message{0, 1, {{head, version, Region::all_of(whole)}}};
            CHECK(ask(client, node.tcp, message).entries.at(0).kind == Kind::Absent);
            // Also if what is wanted lies around it.
            if (row == 1 && column == 1) {
                Region corners{box({{0, 2}, {0, 2}}), {3, 3}};
                message.entries = {{head, version, corners}};
                CHECK(ask(client, node.tcp, message).entries.at(0).kind == Kind::Absent);
            }
            std::string key = piece(head, box({{row, 1}, {column, 1}}), version);
            REQUIRE(put(node.store(), key, std::string(1, static_cast<char>('a' + version))).ok());
            message.entries = {{head, version, Region::all_of(whole)}};
            CHECK(ask(client, node.tcp, message).bytes.at(0) == "abcdefghijklmnop");
        }
}

TEST_CASE("boxes: of pieces that differ the last in the order of keys counts") {
    Node node;
    AgentClient client(kKey);
    std::string head = head_of({&node}, "0:8");
    auto copy = [&](const Box& part, std::string_view bytes) {
        REQUIRE(put_as(node.store(),
                       {.key = piece(head, part), .size = bytes.size(), .is_copy = true}, bytes)
                    .ok());
    };
    copy(box({{2, 6}}), "bbbbbb");
    copy(box({{0, 6}}), "aaaaaa");
    BoxesMessage message{0, 1, {{head, 7, Region::all_of(box({{0, 8}}))}}};
    CHECK(ask(client, node.tcp, message).bytes.at(0) == "aabbbbbb");
}

TEST_CASE("boxes: as many descriptors as can be passed, and bytes beyond") {
    Node node;
    AgentClient client(kKey);
    Model model({130, 70'000}, 1);
    std::string head = head_of({&node}, model.cell());
    BoxesMessage rows{0, 1}, all{0, 1, {{head, 7, Region::all_of(box({{0, 130}, {0, 70'000}}))}}};
    for (std::uint32_t row = 0; row < 130; ++row) {
        Box part = box({{row, 1}, {0, 70'000}});
        REQUIRE(put(node.store(), piece(head, part), model.bytes(part)).ok());
        rows.entries.push_back({head, 7, Region::all_of(part)});
    }
    Got got = ask(client, node.local, rows, true);
    REQUIRE(got.descriptors.size() == BoxesReply::kMostPieces);
    auto descriptor = got.descriptors.begin();
    auto bytes = got.bytes.begin();
    for (std::uint32_t row = 0; row < 130; ++row) {
        std::string expected = model.values.substr(row * 70'000, 70'000);
        if (got.entries[row].kind == Kind::Bytes)
            CHECK(*bytes++ == expected);
        else
            CHECK(all_of(*descriptor++) == expected);
    }
    // An entry comes in one way.
    CHECK(ask(client, node.local, all, true).bytes.at(0) == model.values);
    CHECK(ask(client, node.tcp, rows, true).descriptors.empty());  // they cannot travel
    CHECK(ask(client, node.local, rows, false).descriptors.empty());
    CHECK(::fcntl(got.descriptors[0].get(), F_GETFL) % 4 == O_RDONLY);
}

TEST_CASE("boxes: a piece that went bad is never served, and given up") {
    Node node;
    AgentClient client(kKey);
    std::string head = head_of({&node}, "0:400000");
    Model model({400'000}, 1);
    Box file = box({{0, 200'000}}), heap = box({{200'000, 1000}}),
        sound = box({{201'000, 199'000}});
    for (auto& part : {file, heap, sound})
        REQUIRE(put(node.store(), piece(head, part), model.bytes(part)).ok());
    BoxesMessage message{0, 1};
    for (auto& part : {file, heap, sound})
        message.entries.push_back({head, 7, Region::all_of(part)});
    message.entries.push_back({head, 7, Region::all_of(box({{0, 10}}))});
    message.entries.push_back({head, 7, Region::all_of(box({{0, 400'000}}))});
    ObjectPtr in_file = node.store().find(piece(head, file)),
              in_heap = node.store().find(piece(head, heap));
    REQUIRE((in_heap->in_heap && !in_file->in_heap));
    CHECK(ask(client, node.tcp, message).bytes.size() == 5);
    std::string bytes = model.bytes(file);
    bytes[100'000] ^= 1;
    write_file(node.store().path_of(*in_file), bytes);
    const_cast<char&>(in_heap->bytes[500]) ^= 1;
    // Chunks beside it are sound, until somebody finds out.
    BoxesMessage before{0, 1, {message.entries[3]}};
    CHECK(ask(client, node.tcp, before).bytes.at(0) == model.values.substr(0, 10));
    Got got = ask(client, node.tcp, message);
    REQUIRE(got.bytes.size() == 1);
    CHECK(got.bytes[0] == model.bytes(sound));
    CHECK(got.entries[2].kind == Kind::Bytes);
    for (auto& part : {file, heap})
        CHECK(node.store().absent(piece(head, part)).code() == Code::Damaged);
    CHECK(ask(client, node.tcp, before).entries.at(0).kind == Kind::Absent);
}

TEST_CASE("boxes: what cannot be asked for is refused") {
    Node node;
    AgentClient client(kKey);
    std::string head = head_of({&node}, "10:20,0:5");
    auto refused = [&](BoxesMessage message) {
        Code code = ask(client, node.tcp, message).code;
        return code == Code::BadInput || code == Code::Damaged;
    };
    auto entry = [&](const Region& region) { return BoxesMessage{0, 8, {{head, 7, region}}}; };
    CHECK(!refused(entry(Region::all_of(box({{0, 10}, {0, 5}})))));
    for (auto& part : {box({{0, 11}, {0, 5}}), box({{10, 1}, {0, 1}}), box({{0, 10}}),
                       box({{0, 10}, {0, 5}, {0, 1}}), box({{0, 0}, {0, 5}}), Box{}})
        CHECK(refused(entry(Region::all_of(part))));
    CHECK(!refused(entry({box({{1, 3}, {0, 1}}), {4, 1'000'000}})));
    CHECK(refused(entry({box({{2, 3}, {0, 1}}), {4, 1}})));
    CHECK(refused(entry({box({{0, 1}, {0, 1}}), {0, 1}})));
    CHECK(refused(entry({box({{0, 3}, {0, 1}}), {~0u, 1}})));
    CHECK(refused({0, 8}));
    CHECK(refused({0, 0, entry(Region::all_of(box({{0, 1}, {0, 1}}))).entries}));
    CHECK(refused({0, 8, {{"no head", 7, Region::all_of(box({{0, 1}, {0, 1}}))}}}));
    BoxesMessage many{0, 8};
    many.entries.resize(BoxesMessage::kMost, {head, 7, Region::all_of(box({{0, 1}, {0, 1}}))});
    CHECK(!refused(many));
    many.entries.push_back(many.entries[0]);
    CHECK(refused(many));
    // More than a body may have, though only once it is there.
    std::string wide = head_of({&node}, "0:1000000");
    Region whole = Region::all_of(box({{0, 1'000'000}}));
    BoxesMessage large{0, 8};
    large.entries.resize(34, {wide, 7, whole});
    CHECK(!refused(large));
    REQUIRE(put(node.store(), piece(wide, whole.box), std::string(8'000'000, 'x')).ok());
    CHECK(refused(large));
    large.entries.resize(33);
    CHECK(ask(client, node.tcp, large).bytes.size() == 33);
    CHECK(ask(client, node.local, large, true).descriptors.size() == 33);
}

TEST_CASE("boxes: who was started anew does not say what the one before had") {
    Node node;
    AgentClient client(kKey);
    std::string head = head_of({&node}, "0:4");
    BoxesMessage message{node.number, 1, {{head, 7, Region::all_of(box({{0, 4}}))}}};
    CHECK(ask(client, node.tcp, message).entries.at(0).kind == Kind::Absent);
    message.wanted = node.number + 1000;
    CHECK(ask(client, node.tcp, message).code == Code::Unavailable);
    REQUIRE(put(node.store(), piece(head, box({{0, 4}})), "abcd").ok());
    CHECK(ask(client, node.tcp, message).bytes.at(0) == "abcd");
}
