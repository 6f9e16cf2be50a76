#include "mount/guard.hpp"

#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>

namespace holdfast::mount {

Guard::Guard() {
    std::ifstream table("/proc/self/mountinfo");
    for (std::string line; std::getline(table, line);) {
        unsigned major_number = 0, minor_number = 0;
        char colon = 0;
        int id = 0, parent = 0;
        std::istringstream fields(line);
        fields >> id >> parent >> major_number >> colon >> minor_number;
        if (fields && line.find(" - fuse.holdfast ") != std::string::npos)
            devices_.insert(::makedev(major_number, minor_number));
    }
}

std::string Guard::endangered() const {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        unsigned major_number = 0, minor_number = 0;
        char colon = 0;
        std::string range, rights, offset, inode, path;
        std::istringstream fields(line);
        fields >> range >> rights >> offset >> std::hex >> major_number >> colon >> minor_number >>
            std::dec >> inode;
        std::getline(fields >> std::ws, path);
        if (is_ours(::makedev(major_number, minor_number))) return path;
    }
    return {};
}

}  // namespace holdfast::mount
