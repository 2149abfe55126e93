// The header compiles without a warning in C++17, and its functions work.
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
	std::unique_ptr<cp_ids, void (*)(cp_ids *)> ids(cp_ids_open(dir, CP_ANY_INSTANCE),
							cp_ids_close);
	uint64_t id = 0;
	for (int i = 0; i < 99 && cp_ids_next(ids.get(), &id); i++)
		cp_log(channel.get(), id);
	cp_log_at(channel.get(), cp_counter(), 7);
	if (cp_ids_error(ids.get()) != nullptr || cp_dropped(channel.get()) != 0) {
		std::fprintf(stderr, "no ids, or dropped events\n");
		return 1;
	}
	std::remove((std::string(dir) + "/ids-0000").c_str());
	const std::string path = cp_path(channel.get());
	const uint64_t tail = channel->word[CP_TAIL];
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
