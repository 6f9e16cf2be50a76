// The ring: owners are distinct, orderly, balanced, and stay put when others come and go.
#include "placement/ring.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "support.hpp"

using namespace holdfast;

namespace {

std::vector<std::string> names(int count) {
    std::vector<std::string> nodes;
    for (int i = 0; i < count; ++i) nodes.push_back("node" + std::to_string(i));
    return nodes;
}

std::vector<std::string> owners(const Ring& ring, const std::string& key, std::size_t count) {
    std::vector<std::string> found;
    for (auto index : ring.owners(key, count)) found.push_back(ring.nodes()[index]);
    return found;
}

}  // namespace

TEST_CASE("a ring gives distinct owners, as many as there are") {
    Ring ring(names(5), 64);
    for (int i = 0; i < 200; ++i) {
        auto found = owners(ring, "key" + std::to_string(i), 8);
        CHECK(found.size() == 5);
        CHECK(std::set<std::string>(found.begin(), found.end()).size() == 5);
    }
    CHECK(Ring({}, 64).owners("key", 2).empty());
    CHECK(ring.owners("key", 0).empty());
}

TEST_CASE("a ring does not depend on the order of its nodes") {
    auto nodes = names(9);
    Ring forward(nodes, 32);
    std::reverse(nodes.begin(), nodes.end());
    Ring backward(nodes, 32);
    for (int i = 0; i < 200; ++i)
        CHECK(owners(forward, std::to_string(i), 3) == owners(backward, std::to_string(i), 3));
}

TEST_CASE("labels of virtual nodes cannot collide") {
    // With labels made by joining texts, node "n1" index 11 and node "n11" index 1 would be one.
    Ring ring({"n1", "n11"}, 64);
    std::map<std::string, int> share;
    for (int i = 0; i < 2000; ++i) ++share[owners(ring, std::to_string(i), 1).front()];
    CHECK(share["n1"] > 400);
    CHECK(share["n11"] > 400);
}

TEST_CASE("when a node leaves, only its keys move") {
    auto nodes = names(8);
    Ring before(nodes, 64);
    nodes.erase(nodes.begin() + 3);
    Ring after(nodes, 64);
    for (int i = 0; i < 500; ++i) {
        auto was = owners(before, std::to_string(i), 8), is = owners(after, std::to_string(i), 7);
        std::erase(was, "node3");
        CHECK(was == is);
    }
}

TEST_CASE("what follows a zero byte does not count in a key") {
    Ring ring(names(8), 64);
    using namespace std::string_literals;
    for (int i = 0; i < 200; ++i) {
        std::string key = "key" + std::to_string(i);
        auto found = owners(ring, key, 3);
        for (auto& version : {"\0"s, "\0one"s, "\0two\0three"s})
            CHECK(owners(ring, key + version, 3) == found);
    }
    // As they were before: by the hash of the whole key.
    CHECK(owners(ring, "key-0", 3) == std::vector<std::string>{"node4", "node5", "node1"});
}
