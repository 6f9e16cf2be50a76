// A point of an array has one value: pieces that overlap agree, or are refused before they are
// stored anywhere.
#include <algorithm>
#include <atomic>
#include <thread>

#include "handed_program.hpp"
#include "pieces.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// How a piece gets to its owners: with its put, behind it, or in a file.
enum class Way { Inline, Streamed, Sealed };
constexpr Way kWays[] = {Way::Inline, Way::Streamed, Way::Sealed};

// Rows of a cell that are short, or too long for one body.
struct Rows {
    explicit Rows(Way way) : model({64, way == Way::Inline ? 40u : 2000u}, 8) {}
    Box at(std::uint32_t first, std::uint32_t count) const {
        return box({{first, count}, {1, model.shape[1] - 2}});
    }
    Model model;
};

Status put_piece(AgentClient& client, const std::vector<Node*>& owners, Way way,
                 const std::string& key, std::string_view bytes) {
    std::vector<std::string> addresses;
    std::vector<std::uint64_t> numbers;
    for (Node* owner : owners) {
        addresses.push_back(addresses.empty() && way == Way::Sealed ? owner->local : owner->tcp);
        numbers.push_back(owner->number);
    }
    return client.put(addresses, numbers, key, bytes, Tier::Memory, kDeadline);
}

std::string other_at(const Model& model, const Box& part, const Box& where) {
    Model other = model;
    std::size_t last = 0;
    for_each_element(Region::all_of(where), [&](auto& at) { last = other.index(at); });
    other.values[last * other.item] ^= 1;
    return other.bytes(part);
}

}  // namespace

TEST_CASE("overlap: the same bytes are fine, others are refused and stored nowhere") {
    for (Way way : kWays) {
        CAPTURE(static_cast<int>(way));
        Node a, b;
        agree({&a, &b});
        AgentClient client(kKey);
        Rows rows(way);
        Model& model = rows.model;
        for (Node* holder : {&a, &b}) {
            std::string head = head_of({&a, &b}, model.cell() + (holder == &a ? "" : ",0:1"));
            auto key = [&](Box part, std::uint64_t version = 7) {
                if (holder == &b) part.dimensions = 3, part.sides[2] = {0, 1};
                return piece(head, part, version);
            };
            // One of the owners has it, be it the first or the last: all are asked.
            Box stored = rows.at(10, 20), over = rows.at(20, 30);
            REQUIRE(put(holder->store(), key(stored), model.bytes(stored)).ok());
            std::string other = other_at(model, over, *intersect(stored, over));
            Status refused = put_piece(client, {&a, &b}, way, key(over), other);
            CHECK(refused.code() == Code::KeyExists);
            CHECK(refused.message().find("version 7 of 'run:T'") != std::string::npos);
            CHECK(refused.message().find("20:30,1:") != std::string::npos);
            for (Node* node : {&a, &b}) {
                CHECK(node->store().find(key(over)) == nullptr);
                CHECK(settled(*node));
            }
            // Where they do not overlap they may differ; and so may other versions.
            CHECK(put_piece(client, {&a, &b}, way, key(over, 8), other).ok());
            std::string beside = other_at(model, over, rows.at(30, 20));
            CHECK(put_piece(client, {&a, &b}, way, key(over), beside).ok());
            CHECK(put_piece(client, {&a, &b}, way, key(over), beside).ok());
            CHECK(put_piece(client, {&a, &b}, way, key(over), model.bytes(over)).code() ==
                  Code::KeyExists);
            for (Node* node : {&a, &b}) CHECK(contents(node->store(), key(over)) == beside);
        }
    }
}

TEST_CASE("overlap: elements of another size are other contents") {
    Node a;
    AgentClient client(kKey);
    std::string head = head_of({&a}, "0:8");
    REQUIRE(put(client, {&a}, piece(head, box({{0, 4}})), std::string(32, 'x')).ok());
    CHECK(put(client, {&a}, piece(head, box({{3, 4}})), std::string(16, 'x')).code() ==
          Code::KeyExists);
    CHECK(put(client, {&a}, piece(head, box({{3, 4}})), std::string(32, 'x')).ok());
    CHECK(put(client, {&a}, piece(head, box({{0, 4}})), std::string(31, 'x')).code() ==
          Code::BadInput);
    CHECK(put(client, {&a}, head + std::string(1, '\0'), "bytes").code() == Code::BadInput);
    Program program(a);
    CHECK(program.hand({{piece(head, box({{0, 7}})), 100'000}}).code() == Code::BadInput);
}

TEST_CASE("overlap: random pieces against a model, in the heap and in files") {
    std::mt19937_64 random(1);
    for (auto& shape :
         std::vector<std::vector<std::uint32_t>>{{30}, {6, 7}, {3, 4, 5}, {40, 50, 9}}) {
        for (std::size_t item : {1u, 3u, 8u}) {
            StoreDir place;
            Model model(shape, item);
            std::string head = "@space/00000000/run:T/3+1/0.0/" + model.cell();
            for (int i = 0; i < 60; ++i) {
                Box part = random_box(shape, random);
                std::string bytes = model.bytes(part);
                std::size_t at = random() % bytes.size();
                bool changed = random() % 2 == 0;
                if (changed) bytes[at] ^= 1;
                Box element{shape.size()};
                for (std::size_t n = at / item, d = shape.size(); d-- > 0;) {
                    element.sides[d] = {
                        static_cast<std::uint32_t>(part.sides[d].start + n % part.sides[d].count),
                        1};
                    n /= part.sides[d].count;
                }
                std::string key = piece(head, part);
                bool known = place.store->find(key) != nullptr;
                auto stored = put(*place.store, key, bytes);
                if (changed && (known || model.has(element))) {
                    REQUIRE(!stored.ok());
                    CHECK(stored.status().code() == Code::KeyExists);
                } else {
                    REQUIRE(stored.ok());
                    // What was changed is the value from now on.
                    if (changed) {
                        std::vector<std::uint32_t> where;
                        for (std::size_t d = 0; d < shape.size(); ++d)
                            where.push_back(element.sides[d].start);
                        model.values[model.index(where) * item + at % item] ^= 1;
                    }
                    model.add(part);
                }
            }
        }
    }
}

TEST_CASE("overlap: of two that are being written the second is asked to come again") {
    Node a, b;
    agree({&a, &b});
    Model model({64, 2000}, 8);
    std::string head = head_of({&a, &b}, model.cell());
    Box one = box({{0, 40}, {0, 2000}}), other = box({{39, 25}, {0, 2000}}),
        beside = box({{40, 24}, {0, 2000}});
    AgentClient client(kKey);
    for (Node* node : {&a, &b}) {
        auto writer = node->store().create({.key = piece(head, one), .size = *one.volume() * 8});
        REQUIRE(writer.ok());
        Status busy = put(client, {&a, &b}, piece(head, other), model.bytes(other));
        CHECK(busy.code() == Code::Busy);
        CHECK(busy.message().find("39:64,0:2000") != std::string::npos);
        // Likewise a copy of it: who is writing has not compared with that.
        CHECK(node->store()
                  .create({.key = piece(head, other), .size = *other.volume() * 8, .is_copy = true})
                  .status()
                  .code() == Code::Busy);
        CHECK(put(client, {&a, &b}, piece(head, beside), model.bytes(beside)).ok());
    }
    CHECK(put(client, {&a, &b}, piece(head, other), model.bytes(other)).ok());
}

TEST_CASE("overlap: of two writers at once, in whatever order they ask, one is acknowledged") {
    Node a, b;
    agree({&a, &b});
    for (Way way : kWays) {
        CAPTURE(static_cast<int>(way));
        Rows rows(way);
        int rounds = way == Way::Inline ? 40 : 8;
        std::string head = head_of({&a, &b}, rows.model.cell());
        for (int round = 0; round < rounds; ++round) {
            auto version = static_cast<std::uint64_t>(100 * static_cast<int>(way) + round);
            Box parts[] = {rows.at(0, 40), rows.at(30, 34)};
            std::string bytes[] = {rows.model.bytes(parts[0]),
                                   other_at(rows.model, parts[1], rows.at(30, 10))};
            // The own node first, whatever its place in the list.
            std::vector<Node*> chains[] = {{&a, &b}, {&b, &a}};
            Status ended[2];
            std::vector<std::thread> writers;
            for (int i = 0; i < 2; ++i)
                writers.emplace_back([&, i] {
                    AgentClient client(kKey);
                    std::mt19937_64 random(static_cast<std::uint64_t>(i));
                    std::vector<std::string> addresses{
                        way == Way::Sealed ? chains[i][0]->local : chains[i][0]->tcp,
                        chains[i][1]->tcp};
                    do {
                        ended[i] = client.put(addresses, {a.number, b.number},
                                              piece(head, parts[i], version), bytes[i],
                                              Tier::Memory, kDeadline);
                        std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
                    } while (ended[i].code() == Code::Busy);
                });
            for (auto& writer : writers) writer.join();
            CHECK(ended[0].ok() != ended[1].ok());
            CHECK(ended[ended[0].ok()].code() == Code::KeyExists);
            for (Node* node : {&a, &b})
                for (int i = 0; i < 2; ++i)
                    CHECK((node->store().find(piece(head, parts[i], version)) != nullptr) ==
                          ended[i].ok());
        }
    }
    CHECK((settled(a) && settled(b)));
}

TEST_CASE("overlap: what is dropped or goes bad while it is compared keeps nobody out") {
    StoreDir place;
    Store& store = *place.store;
    for (std::size_t item : {std::size_t{1}, std::size_t{1000}}) {  // in the heap and in a file
        for (bool drop : {true, false}) {
            Model model({300}, item);
            std::string head =
                "@space/00000000/run:T/3+1/0.0/0:300,0:" + std::to_string(item + drop);
            Box first = box({{0, 200}, {0, 1}}), second = box({{100, 200}, {0, 1}});
            std::string bytes(200 * item, 'a'), other(200 * item, 'b');
            ObjectPtr stored = *put(store, piece(head, first), bytes);
            auto writer = store.create({.key = piece(head, second), .size = other.size()});
            REQUIRE(writer.ok());
            REQUIRE(writer->append(other.data(), other.size()).ok());
            if (drop) {
                store.drop(stored->key);
            } else if (stored->in_heap) {
                const_cast<char&>(stored->bytes[0]) ^= 1;
            } else {
                write_file(store.path_of(*stored), std::string(bytes.size(), 'c'));
            }
            std::uint32_t crc = crc32c(0, other.data(), other.size());
            auto committed = writer->commit(crc);
            // One in the heap is at hand even when it was dropped.
            CHECK(committed.ok() == !(drop && stored->in_heap));
            CHECK(store.absent(stored->key).code() == (drop ? Code::Dropped : Code::Damaged));
        }
    }
    CHECK(store.counters().damaged == 2);
}

TEST_CASE("overlap: a file that others read is compared to its end") {
    StoreDir place;
    Box first = box({{0, 3}, {0, 40'000}}), second = box({{1, 3}, {20'000, 20'000}});
    Model model({4, 40'000}, 4);
    std::string head = "@space/00000000/run:T/3+1/0.0/" + model.cell();
    REQUIRE(put(*place.store, piece(head, first), model.bytes(first)).ok());
    std::string bytes = model.bytes(second), other = bytes;
    std::size_t last_in_both = 2 * 20'000 * 4 - 1;
    other[last_in_both] ^= 1;
    CHECK(put(*place.store, piece(head, second), other).status().code() == Code::KeyExists);
    other = bytes;
    other[last_in_both + 1] ^= 1;
    CHECK(put(*place.store, piece(head, second), other).ok());
}

TEST_CASE("overlap: copies of what others hold are kept beside each other") {
    Node a, b;
    agree({&a, &b});
    AgentClient client(kKey);
    std::string head = head_of({&a, &b}, "0:8");
    std::string one = piece(head, box({{0, 6}})), other = piece(head, box({{2, 6}}));
    // As after a cut.
    REQUIRE(put(a.store(), one, "aaaaaa").ok());
    REQUIRE(put(b.store(), other, "bbbbbb").ok());
    CHECK(a.pull({other, b.tcp}).ok());
    CHECK(b.pull({one, a.tcp}).ok());
    for (Node* node : {&a, &b}) CHECK(contents(node->store(), one) == "aaaaaa");
    for (Node* node : {&a, &b}) CHECK(contents(node->store(), other) == "bbbbbb");
}

TEST_CASE("overlap: a program that is silent holds up nobody who writes beside its pieces") {
    Node a;
    AgentClient client(kKey);
    std::string head = head_of({&a}, "0:300000");
    std::string one = piece(head, box({{0, 200'000}})),
                other = piece(head, box({{100'000, 200'000}}));
    std::string bytes = random_bytes(200'000, 1);
    Program program(a);
    REQUIRE(program.hand({{one, bytes.size()}}, Tier::Memory, 200ms).ok());
    REQUIRE(eventually([&] { return put(client, {&a}, other, bytes).ok(); }));
    REQUIRE(write_to(program.passed.at(0), bytes));
    program.passed.clear();
    CHECK(program.seal({&a}, one, sums(bytes)).code() == Code::Busy);  // it was taken away
    CHECK(a.store().find(one) == nullptr);
}
