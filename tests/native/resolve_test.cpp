// From a path to its file: both ways stay below the root, and neither opens anything.
#include "files/resolve.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

using Way = Result<Fd> (*)(const Fd& root, const std::string& relative);

// The inode that a way finds; 0 for NotCached.
std::uint64_t found(Way way, const std::string& root, const std::string& relative) {
    auto fd = way(Fd(::open(root.c_str(), O_PATH | O_DIRECTORY)), relative);
    if (!fd.ok()) {
        CHECK(fd.status().code() == Code::NotCached);
        return 0;
    }
    struct stat info{};
    REQUIRE(::fstat(fd->get(), &info) == 0);
    CHECK((::fcntl(fd->get(), F_GETFL) & O_PATH) != 0);
    return info.st_ino;
}

std::uint64_t inode(const std::string& path) {
    struct stat info{};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    return info.st_ino;
}

}  // namespace

TEST_CASE("links are followed below the root and never out of it, with openat2 and without") {
    TempDir dir;
    std::filesystem::create_directories(dir / "root/sub");
    std::filesystem::create_directories(dir / "rooted");
    for (const char* name : {"root/file", "root/sub/file", "outside", "rooted/file"})
        write_file(dir / name, name);
    auto link = [&](const std::string& target, const std::string& name) {
        REQUIRE(::symlink(target.c_str(), (dir / name).c_str()) == 0);
    };
    link("sub/file", "root/inside");
    link("../file", "root/sub/up");
    link("../outside", "root/out");
    link("../rooted/file", "root/similar");
    link(dir / "outside", "root/absolute");
    link("sub", "root/directory");
    link("..", "root/parent");
    link("loop", "root/loop");
    link("none", "root/dangling");
    link("root", "linked");
    for (Way way : {&resolve_beneath, &resolve_and_compare}) {
        std::string root = dir / "root";
        for (std::string top : {root, dir / "linked"}) {  // a root may be a link itself
            CHECK(found(way, top, "file") == inode(root + "/file"));
            CHECK(found(way, top, "inside") == inode(root + "/sub/file"));
            CHECK(found(way, top, "sub/up") == inode(root + "/file"));
            CHECK(found(way, top, "directory/file") == inode(root + "/sub/file"));
            for (const char* name : {"out", "similar", "absolute", "parent/outside", "loop",
                                     "dangling", "none", "file/below"})
                CHECK(found(way, top, name) == 0);
            CHECK(found(way, top, std::string(300, 'a')) == 0);
        }
        CHECK(found(way, dir / "none", "file") == 0);
        CHECK(found(way, root + "/file", "file") == 0);
    }
}

TEST_CASE("a file that changed between the look and the open is not opened") {
    TempDir dir;
    write_file(dir / "file", "one");
    auto place = resolve({dir.path(), dir / "file"});
    REQUIRE(place.ok());
    CHECK(place->attributes.size == 3);
    CHECK(open_place(*place).ok());
    write_file(dir / "file", "other");
    CHECK(open_place(*place).status().code() == Code::NotCached);
}

TEST_CASE("the names that a path leads through") {
    TempDir dir;
    std::filesystem::create_directories(dir / "real/in");
    write_file(dir / "real/file", "x");
    std::filesystem::create_symlink("real", dir / "cur");
    std::filesystem::create_symlink("./cur", dir / "latest");
    std::filesystem::create_symlink("real/in/../file", dir / "back");
    std::filesystem::create_symlink("round", dir / "round");
    std::filesystem::create_symlink("../out", dir / "out");
    std::filesystem::create_symlink("/etc/passwd", dir / "far");
    auto names = [&](const std::string& path) { return names_on_the_way(dir.path(), dir / path); };
    using Names = std::vector<std::string>;
    CHECK(*names("real/file") == Names{dir / "real/file"});
    CHECK(*names("latest/file") == Names{dir / "latest", dir / "cur", dir / "real/file"});
    CHECK(*names("back") == Names{dir / "back", dir / "real/in", dir / "real/file"});
    for (const char* path : {"round", "out", "far", "missing", "real/file/x"})
        CHECK(names(path).status().code() == Code::NotCached);
    for (const char* path : {"cur", "round", "real"}) CHECK(is_way_to_others(dir / path));
    for (const char* path : {"real/file", "real/in", "missing"})
        CHECK_FALSE(is_way_to_others(dir / path));
}
