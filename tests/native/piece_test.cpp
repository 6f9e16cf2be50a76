// Boxes against what is counted element by element, and keys of pieces.
#include "store/piece.hpp"

#include <set>

#include "pieces.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

const std::string kHead = "@space/0123abcd/run:T/3+1/5.2/64:72,0:3";
constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();

Code parsed(const std::string& key) {
    auto piece = PieceKey::parse(key);
    return piece.ok() ? Code::Ok : piece.status().code();
}

}  // namespace

TEST_CASE("pieces: a key is read as it was written") {
    Box part = box({{1, 7}, {0, 3}});
    std::string key = piece(kHead, part, 0x0102030405060708);
    CHECK(key ==
          kHead + std::string("\0\1\2\3\4\5\6\7\10\0\0\0\1\0\0\0\7\0\0\0\0\0\0\0\3\0\0", 27));
    auto read = PieceKey::parse(key);
    REQUIRE(read.ok());
    CHECK(read->head == kHead);
    CHECK(read->version == 0x0102030405060708);
    CHECK(read->box == part);
    CHECK(read->generation == 0);
    CHECK(read->variable() == "run:T");
    CHECK(read->cell.text(part) == "65:72,0:3");
    CHECK(read->format() == key);
    CHECK(key.starts_with(read->scope()));
    CHECK(read->box_of(key) == part);
    CHECK(PieceKey::is_one(key));
    CHECK(!PieceKey::is_one("@space/names/run/T"));
    CHECK(!PieceKey::is_one(std::string("key\0", 4)));
}

TEST_CASE("pieces: random keys are read as they were written, in the order of versions") {
    std::mt19937_64 random(1);
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::uint32_t> shape(1 + random() % kMaxDimensions);
        std::string cell;
        for (auto& side : shape) {
            side = static_cast<std::uint32_t>(1 + random() % kMost);
            std::uint64_t start = random() >> (random() % 63 + 1);
            cell += (cell.empty() ? "" : ",") + std::to_string(start) + ":" +
                    std::to_string(start + side);
        }
        std::string head = "@space/0123abcd/run:T/3+1/5.2/" + cell;
        Box part = random_box(shape, random);
        std::uint64_t version = random();
        PieceKey made{head, *Cell::of(head), version, part, static_cast<std::uint16_t>(random())};
        auto read = PieceKey::parse(made.format());
        REQUIRE(read.ok());
        CHECK((read->box == part && read->version == version));
        CHECK(read->generation == made.generation);
        std::uint64_t other = random();
        CHECK((piece(head, part, other) < piece(head, part, version)) == (other < version));
        // Of another length, or cut short, it is none.
        std::string key = made.format();
        CHECK(parsed(key + "x") == Code::BadInput);
        CHECK(parsed(key.substr(0, key.size() - 1)) == Code::BadInput);
        CHECK(!read->box_of(key + "x"));
    }
}

TEST_CASE("pieces: malformed keys are refused") {
    Box whole = box({{0, 8}, {0, 3}});
    std::string tail = piece(kHead, whole).substr(kHead.size());
    CHECK(parsed(kHead + tail) == Code::Ok);
    for (auto part : {box({{0, 9}, {0, 3}}), box({{8, 1}, {0, 3}}), box({{0, 0}, {0, 3}}),
                      box({{kMost, kMost}, {0, 3}}), box({{0, 8}, {3, 0}})})
        CHECK(parsed(piece(kHead, part)) == Code::BadInput);
    for (std::string head :
         {"", "@space/", "@space/0/run:T/3+1/5.2", "@space/0/run:T/3+1/5.2/",
          "run:T/3+1/5.2/0:8,0:3", "@space//run:T/3+1/5.2/0:8,0:3", "@space/0/run:T/3+1/5.2/0:8",
          "@space/0/a/run:T/3+1/5.2/0:8,0:3", "@space/0/run:T/3+1/5.2/0:8,0:3,0:3",
          "@space/0/run:T/3+1/5.2/0:8,00:3", "@space/0/run:T/3+1/5.2/0:8, 0:3",
          "@space/0/run:T/3+1/5.2/0:8,3:3", "@space/0/run:T/3+1/5.2/0:8,-1:3",
          "@space/0/run:T/3+1/5.2/0:8,0:4294967296",
          "@space/0/run:T/3+1/5.2/0:8,0:99999999999999999999", "@space/0/run:T/3+1/5.2/0:8,0",
          "@space/0/run:T/3+1/5.2/0:8,0:3,", "@space/0/run:T/3+1/5.2/0:8,0:3x",
          "@space/0/run:T/3+1/5.2/0:1,0:1,0:1,0:1,0:1,0:1,0:1,0:1,0:1"})
        CHECK_MESSAGE(parsed(head + tail) == Code::BadInput, head);
    CHECK(parsed(kHead) == Code::BadInput);
}

TEST_CASE("pieces: an object under a piece's key has as many bytes as its box allows") {
    std::string key = piece(kHead, box({{0, 8}, {0, 3}}));
    for (std::uint64_t size : {24, 48, 240}) CHECK(PieceKey::check(key, size).ok());
    for (std::uint64_t size : {0, 1, 23, 25})
        CHECK(PieceKey::check(key, size).code() == Code::BadInput);
    CHECK(PieceKey::check("key", 25).ok());
    CHECK(PieceKey::check("@space/names/run", 25).ok());
    CHECK(PieceKey::check(std::string("@space/names/run\0x", 18), 25).code() == Code::BadInput);
    // 2^96 elements are 0 modulo 2^64.
    std::string side = "0:4294967295",
                huge = "@space/0/run:T/3+1/5.2/" + side + "," + side + "," + side;
    CHECK(
        PieceKey::check(piece(huge, box({{0, 1u << 31}, {0, 1u << 31}, {0, 4}})), 1 << 20).code() ==
        Code::BadInput);
}

TEST_CASE("boxes: what two share, and one without the other, are counted") {
    std::mt19937_64 random(2);
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::uint32_t> shape(1 + random() % 4);
        for (auto& side : shape) side = static_cast<std::uint32_t>(1 + random() % 5);
        Model model(shape, 1);
        auto elements = [&](const Box& of) {
            std::set<std::size_t> found;
            for_each_element(Region::all_of(of), [&](auto& at) { found.insert(model.index(at)); });
            return found;
        };
        Box one = random_box(shape, random), other = random_box(shape, random);
        std::set<std::size_t> ones = elements(one), others = elements(other), both, left;
        for (auto element : ones) (others.contains(element) ? both : left).insert(element);
        CHECK(*one.volume() == ones.size());
        auto shared = intersect(one, other);
        CHECK(shared == intersect(other, one));
        CHECK((shared ? elements(*shared) : std::set<std::size_t>()) == both);
        std::vector<Box> rest;
        subtract(one, other, rest);
        std::set<std::size_t> found;
        std::size_t count = 0;
        for (auto& part : rest) {
            CHECK(*part.volume() > 0);
            count += *part.volume();
            found.merge(elements(part));
        }
        CHECK(found == left);
        CHECK(count == left.size());  // none twice
    }
}

TEST_CASE("boxes: at the end of what 32 bits count nothing is lost") {
    Box whole = box({{0, kMost}}), end = box({{kMost - 1, 1}});
    CHECK(intersect(whole, end) == end);
    std::vector<Box> rest;
    subtract(whole, end, rest);
    CHECK(rest == std::vector{box({{0, kMost - 1}})});
    CHECK(!intersect(box({{0, kMost - 1}}), end));
    CHECK(!Box{3, {{{0, kMost}, {0, kMost}, {0, kMost}}}}.volume());
    CHECK(Box{3, {{{0, kMost}, {0, kMost}, {0, 0}}}}.volume() == 0);
    CHECK(!Region{box({{0, kMost}}), {kMost}}.bounds());
    CHECK(!Region{box({{0, 3}}), {1u << 31}}.bounds());
    CHECK(Region{box({{5, 2}}), {1u << 31}}.bounds() == box({{5, (1u << 31) + 1}}));
}

TEST_CASE("boxes: a walk meets each element of a region that a box has, once and in order") {
    std::mt19937_64 random(3);
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::uint32_t> shape(1 + random() % 4);
        for (auto& side : shape) side = static_cast<std::uint32_t>(1 + random() % 7);
        Model model(shape, 1);
        Box has = random_box(shape, random);
        Region region = Region::all_of(random_box(shape, random));
        for (std::size_t d = 0; d < shape.size(); ++d) {
            auto& [start, count] = region.box.sides[d];
            region.steps[d] = static_cast<std::uint32_t>(1 + random() % 3);
            count = (count - 1) / region.steps[d] + 1;
        }
        // What lies in the box, by place in it, and where it belongs in the region.
        std::map<std::vector<std::uint32_t>, std::uint64_t> places;
        std::uint64_t n = 0;
        for_each_element(Region::all_of(has), [&](auto& at) { places[at] = n++; });
        std::vector<std::pair<std::uint64_t, std::uint64_t>> expected, met;
        n = 0;
        for_each_element(region, [&](auto& at) {
            if (places.contains(at)) expected.emplace_back(places[at], n);
            ++n;
        });
        Walk walk(region, has);
        CHECK(walk.empty() == expected.empty());
        CHECK(walk.rows([&](auto from, auto step, auto to, auto count) {
            for (std::uint64_t i = 0; i < count; ++i) met.emplace_back(from + i * step, to + i);
            return true;
        }));
        CHECK(met == expected);
        int rows = 0;
        CHECK(walk.rows([&](auto...) { return ++rows < 0; }) == walk.empty());
        CHECK(rows == !walk.empty());
    }
}
