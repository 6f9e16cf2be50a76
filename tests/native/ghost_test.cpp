// Rule 8 for what has a source: second copies arrive by comparison, and eviction does not make
// co-owners send them to and fro.
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "files/messages.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

constexpr std::size_t kSize = 100'000;

Result<ObjectPtr> keep(Node& node, const std::string& key) {
    return put_as(node.store(), {.key = key, .has_source = true, .copies = 2},
                  random_bytes(kSize, 1));
}

// Makes room for something else, so that all that may be evicted is.
void evict_all(Node& node) {
    auto usage = node.store().usage(Tier::Memory);
    auto room = node.store().create({.key = "room", .size = usage.capacity});
    CHECK(room.ok());
}

bool equal(Node& a, Node& b) {
    return a.store().survey()[b.number] == b.store().survey()[a.number];
}

// What is evicted before it was ever counted is nobody's ghost.
void begin(Node& a, Node& b) {
    agree({&a, &b});
    CHECK(equal(a, b));
}

std::vector<std::uint32_t> all_buckets() {
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 0; i < Survey::kBuckets; ++i) all.push_back(i);
    return all;
}

std::vector<Held> listed(Node& node, Node& peer) {
    return node.store().held_with(peer.number, all_buckets());
}

// What one comparison makes `node` fetch; gives how many copies were begun.
int compare(Node& node, Node& peer) {
    int pulls = 0;
    for (auto& theirs : listed(peer, node)) {
        if (node.store().held(theirs.key)) continue;
        ++pulls;
        (void)node.pull({theirs.key, peer.tcp, theirs.tier});
    }
    return pulls;
}

}  // namespace

TEST_CASE("rule 8: a second copy of a file arrives by comparison, with all that is known of it") {
    Node a, b;
    agree({&a, &b});
    std::string key = file_key("/shared/file", {1, kSize, 3, 4});
    REQUIRE(keep(a, key).ok());
    CHECK_FALSE(equal(a, b));
    CHECK(compare(b, a) == 1);
    CHECK(equal(a, b));
    ObjectPtr copy = b.store().find(key);
    REQUIRE(copy);
    CHECK(copy->has_source);
    CHECK(copy->copies == 2);
    CHECK_FALSE(copy->in_heap);
    CHECK(contents(b.store(), key) == random_bytes(kSize, 1));
    CHECK(a.store().short_of_nodes() == 0);
    // One copy only is no business of the other.
    REQUIRE(put_as(a.store(), {.key = key_of({&a}), .has_source = true}, "x").ok());
    CHECK(equal(a, b));
    // A copy that went bad comes back; one that was dropped does not.
    std::string path = b.tier(Tier::Memory) + "/" + copy->name;
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    REQUIRE(::truncate(path.c_str(), 1) == 0);
    CHECK_FALSE(b.store().verify(copy).ok());
    CHECK_FALSE(equal(a, b));
    CHECK(compare(b, a) == 1);
    CHECK(equal(a, b));
    evict_all(b);
    for (Node* node : {&a, &b}) node->store().drop(key);
    CHECK(equal(a, b));
    CHECK(listed(b, a).empty());
    CHECK_FALSE(b.store().held(key));
}

TEST_CASE("rule 8: what was evicted still counts, until it is stored again") {
    Node a, b;
    agree({&a, &b});
    std::set<std::string> keys;
    for (std::uint64_t i = 0; i < 20; ++i) keys.insert(file_key("/f" + std::to_string(i), {i}));
    for (auto& key : keys)
        for (Node* node : {&a, &b}) REQUIRE(keep(*node, key).ok());
    REQUIRE(equal(a, b));
    evict_all(b);
    CHECK(b.store().usage(Tier::Memory).objects == 0);
    CHECK(equal(a, b));
    CHECK(listed(b, a).size() == 20);
    CHECK(compare(b, a) == 0);
    CHECK(compare(a, b) == 0);
    for (auto& key : keys) REQUIRE(keep(b, key).ok());
    CHECK(equal(a, b));
    CHECK(listed(b, a).size() == 20);
    // Under another placement it is another's turn, or it is fetched once more.
    evict_all(b);
    Node c;
    agree({&a, &b, &c}, 2);
    CHECK(listed(b, a).empty());
    agree({&a, &b}, 3);
    CHECK_FALSE(equal(a, b));
    CHECK(compare(b, a) == 20);
    CHECK(equal(a, b));
}

TEST_CASE("rule 8: what nobody has any more is not asked for twice") {
    Node a, b;
    begin(a, b);
    std::string key = file_key("/file", {});
    REQUIRE(keep(a, key).ok());
    evict_all(a);
    CHECK_FALSE(equal(a, b));
    CHECK(compare(b, a) == 1);  // in vain
    CHECK_FALSE(b.store().find(key));
    CHECK(equal(a, b));
    CHECK(compare(b, a) == 0);
}

TEST_CASE("rule 8: what finds no room is not fetched again, and takes none from objects") {
    Node a, b(150'000, 0);
    begin(a, b);
    REQUIRE(put(b.store(), key_of({&b}), random_bytes(80'000, 2)).ok());
    REQUIRE(keep(a, file_key("/file", {})).ok());
    CHECK(compare(b, a) == 1);
    CHECK(b.store().usage(Tier::Memory).objects == 1);
    CHECK(equal(a, b));
    CHECK(compare(b, a) == 0);
    // An object without a source is at risk, so it is asked for until there is room.
    REQUIRE(put_as(a.store(), {.key = "object", .copies = 2}, random_bytes(kSize, 3)).ok());
    CHECK(compare(b, a) == 1);
    CHECK(compare(b, a) == 1);
}

TEST_CASE("rule 8: two co-owners with too little room for their files come to rest") {
    Node a(1 << 20, 0), b(700'000, 0);
    begin(a, b);
    int pulls = 0;
    for (std::uint64_t round = 0; round < 3; ++round) {  // epochs of a dataset larger than both
        for (std::uint64_t i = 0; i < 40; ++i)
            REQUIRE(keep(i % 2 ? a : b, file_key("/f" + std::to_string(i), {i})).ok());
        int before = pulls, last = -1;
        for (int comparisons = 0; last != 0; ++comparisons) {
            REQUIRE(comparisons < 20);
            last = compare(a, b) + compare(b, a);
            pulls += last;
        }
        CHECK(equal(a, b));
        CHECK(pulls - before <= 40);  // one for each that was read
    }
    CHECK(a.store().counters().evicted > 0);
    CHECK(b.store().counters().evicted > 0);
}

TEST_CASE("rule 8: files that are not ours are strays, and go when their owners have them") {
    Node a, b;
    agree({&a, &b});
    std::string key = key_of({&b}, "file");
    REQUIRE(put_as(a.store(), {.key = key, .has_source = true}, random_bytes(kSize, 1)).ok());
    auto strays = a.store().strays(10, "");
    REQUIRE(strays.size() == 1);
    CHECK(b.pull({key, a.tcp, Tier::Memory}).ok());
    CHECK(a.store().trim(key, strays[0].size, strays[0].crc));
    CHECK(a.store().strays(10, "").empty());
    CHECK(contents(b.store(), key) == random_bytes(kSize, 1));
    CHECK(b.store().strays(10, "").empty());
}
