// Files: read one without blocking on other kinds, and replace one in a single step.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "documents.hpp"

namespace files {

constexpr off_t size_limit = 64 << 20;

inline std::system_error failure(const char* what) {
    return {errno, std::generic_category(), what};
}

inline Rejected not_regular(const std::string& path) {
    return Rejected("not-regular", "", path + " is not a regular file; it stays as it is");
}

// Repeat a system call while a signal interrupts it, for a limited number of times.
template <class Call>
auto uninterrupted(Call call) {
    auto result = call();
    for (int more = 100; result < 0 && errno == EINTR && more > 0; --more) result = call();
    return result;
}

// A descriptor that is closed with its owner.
class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    int operator*() const { return number_; }
    int close() {  // some file systems report an error only here
        const int number = number_;
        number_ = -1;
        return ::close(number);
    }

private:
    int number_;
};

struct File {
    std::string data;
    mode_t mode;
};

// The regular file at `path`, through links; rejects not-regular, unreadable and too-large.
inline File read(const std::string& path) {
    const auto unreadable = [&] {
        return Rejected("unreadable", "", path + ": " + std::strerror(errno));
    };
    const auto require = [&](const struct stat& status) {
        if (!S_ISREG(status.st_mode)) throw not_regular(path);
        if (status.st_size > size_limit)
            throw Rejected("too-large", "", path + " has more than 64 MiB");
    };
    if (path.find('\0') != path.npos) throw Rejected("unreadable", "", "a path holds no NUL");
    struct stat status{};
    // Opening a device can have an effect, so the kind is checked before, and again afterwards.
    if (uninterrupted([&] { return ::stat(path.c_str(), &status); })) throw unreadable();
    require(status);
    const Descriptor file(uninterrupted(
        [&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); }));
    if (*file < 0 || uninterrupted([&] { return ::fstat(*file, &status); })) throw unreadable();
    require(status);
    File found{std::string(static_cast<std::size_t>(status.st_size), '\0'), status.st_mode & 07777};
    std::size_t size = 0;
    while (true) {
        if (size == found.data.size()) found.data.resize(size + 4096);  // the file may have grown
        const auto got = uninterrupted(
            [&] { return ::read(*file, found.data.data() + size, found.data.size() - size); });
        if (got < 0) throw unreadable();
        if (got == 0) break;
        size += static_cast<std::size_t>(got);
        if (size > static_cast<std::size_t>(size_limit))
            throw Rejected("too-large", "", path + " has more than 64 MiB");
    }
    found.data.resize(size);
    return found;
}

// --- Publishing

// The file to replace: `path`, or the target of a link, so that the link is kept.
inline std::string destination(const std::string& path) {
    struct stat status{};
    if (path.empty() || path.back() == '/' || path.find('\0') != path.npos) throw not_regular(path);
    if (uninterrupted([&] { return ::lstat(path.c_str(), &status); })) {
        if (errno == ENOENT) return path;
        throw failure("lstat");
    }
    if (!S_ISLNK(status.st_mode)) return path;
    std::error_code error;
    const auto target = std::filesystem::canonical(path, error);
    if (error == std::errc::no_such_file_or_directory ||
        error == std::errc::too_many_symbolic_link_levels)
        throw not_regular(path);
    if (error) throw std::system_error(error);
    return target;
}

// A name of this process alone; containers that share a directory can have equal process ids.
inline std::string temporary_name() {
    unsigned char bytes[16];
    if (uninterrupted([&] { return ::getrandom(bytes, sizeof bytes, 0); }) != sizeof bytes)
        throw failure("getrandom");
    std::string name = ".nvfp4-";
    for (const unsigned char byte : bytes) {
        name += "0123456789abcdef"[byte >> 4];
        name += "0123456789abcdef"[byte & 15];
    }
    return name + ".tmp";
}

inline void write_all(int file, std::string_view data) {
    while (!data.empty()) {
        const auto written = uninterrupted([&] { return ::write(file, data.data(), data.size()); });
        if (written < 0) throw failure("write");
        if (written == 0) throw std::system_error(EIO, std::generic_category(), "write");
        data.remove_prefix(static_cast<std::size_t>(written));
    }
}

// Replace `path` by a file with this content in one step; the mode of a new file follows the umask.
inline void replace(const std::string& path, std::string_view data, std::optional<mode_t> mode) {
    const auto temporary = (std::filesystem::path(path).parent_path() / temporary_name()).string();
    try {
        Descriptor file(uninterrupted([&] {
            return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                          mode ? 0600 : 0666);
        }));
        if (*file < 0) throw failure("open");
        write_all(*file, data);
        if (mode && uninterrupted([&] { return ::fchmod(*file, *mode); })) throw failure("fchmod");
        if (uninterrupted([&] { return ::fsync(*file); })) throw failure("fsync");
        if (file.close() && errno != EINTR) throw failure("close");
        if (uninterrupted([&] { return ::rename(temporary.c_str(), path.c_str()); }))
            throw failure("rename");
    } catch (...) {
        uninterrupted([&] { return ::unlink(temporary.c_str()); });
        throw;
    }
}

inline void sync_directory(int directory) {
    if (uninterrupted([&] { return ::fsync(directory); }) && errno != EINVAL)
        throw failure("fsync");
}

// Merge `document` into the current file at `path`, and publish the result.
//
// Writers lock the descriptor of the directory, so that no plans are lost and no lock file remains;
// readers need no lock. A corrupt or foreign file is rejected and not changed.
inline cache::Document update(const std::string& path, cache::Document document) try {
    const std::string target = destination(path);
    auto folder = std::filesystem::path(target).parent_path();
    if (folder.empty()) folder = ".";
    std::filesystem::create_directories(folder);
    const Descriptor directory(
        uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (*directory < 0) throw failure("open");
    if (uninterrupted([&] { return ::flock(*directory, LOCK_EX); })) throw failure("flock");
    std::optional<File> before;
    struct stat status{};
    if (uninterrupted([&] { return ::stat(target.c_str(), &status); }) == 0)
        before = read(target);
    else if (errno != ENOENT)
        throw failure("stat");
    if (before && !before->data.empty()) {  // an empty file counts as absent
        const auto prior = cache::native(strict::parse(before->data), &document.metadata);
        document = cache::merged(prior, std::move(document));
    }
    replace(target, document.text(), before ? std::optional(before->mode) : std::nullopt);
    try {
        sync_directory(*directory);
    } catch (const std::system_error&) {
        // A power failure could still undo the new name, so the old file is restored and the save fails.
        if (before)
            replace(target, before->data, before->mode);
        else
            uninterrupted([&] { return ::unlink(target.c_str()); });
        throw;
    }
    return document;
} catch (const std::system_error& error) {  // includes the errors of std::filesystem
    throw Rejected("publication", path, path + " could not be written: " + error.what());
}

}  // namespace files
