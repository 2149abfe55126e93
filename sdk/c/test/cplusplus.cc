// The header in C++17 compiles without a warning, and works.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "cloudprofiler.h"

int main()
{
	char dir[] = "/tmp/cloudprofiler-c-test-XXXXXX";
	if (mkdtemp(dir) == nullptr)
		return 1;
	cp_options options{};
	options.dir = dir;
	options.handler = "id";
	std::unique_ptr<cp_channel, void (*)(cp_channel *)> channel(
		cp_open("actor#1/start", &options), cp_close);
	if (cp_error(channel.get()) != nullptr) {
		std::fprintf(stderr, "%s\n", cp_error(channel.get()));
		return 1;
	}
	for (uint64_t id = 0; id < 100; id++)
		cp_log(channel.get(), id);
	const std::string path = cp_path(channel.get());
	const uint64_t tail = *channel->shard->tail;
	channel.reset();
	std::remove(path.c_str());
	std::remove(dir);
	if (tail != 100) {
		std::fprintf(stderr, "tail %llu, want 100\n",
			     static_cast<unsigned long long>(tail));
		return 1;
	}
	return 0;
}
