/*
 * A program may fork at any moment while another thread opens a channel. If the child opens a
 * channel, it does not wait for that thread, which does not exist in the child.
 *
 * Neither an emulator of user programs nor the address sanitizer passes this test. They fork while
 * the other thread holds locks of theirs, and then the child may wait for one of them for ever.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/prctl.h>

#include "alone.h"
#include "open.h"

static bool opening = true;

/* Each cp_open here searches the whole list of directories, and then fails. */
static void *open_in_vain(void *unused)
{
	(void)unused;
	while (PEEK(&opening)) {
		cp_channel *c = cp_open("vain/x", &(cp_options){.dir = dir});
		cp_close(c);
	}
	return NULL;
}

static void test_fork_while_another_thread_opens(void)
{
	enum { DIRECTORIES = 5000, FORKS = 50 };
	char file[64], other[32];
	pthread_t thread;

	snprintf(file, sizeof(file), "%s/node", dir);
	FILE *f = fopen(file, "w");
	CHECK(f != NULL && fputs("many", f) >= 0 && fclose(f) == 0);
	/* The list begins with the newest directory, so this directory is the last in the list. */
	CHECK(cp_lost_drainer(dir) != NULL);
	for (int i = 0; i < DIRECTORIES; i++) {
		snprintf(other, sizeof(other), "/none/%d", i);
		CHECK(cp_lost_drainer(other) != NULL);
	}
	cp_prepare_process(); /* the thread sanitizer's pthread_once does not end in a child */
	CHECK(pthread_create(&thread, NULL, open_in_vain, NULL) == 0);
	for (int i = 0; i < FORKS; i++) {
		int status = -1;
		pid_t child = fork();
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL); /* opening blocks other signals */
			cp_close(cp_open("vain/y", &(cp_options){.dir = dir}));
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		if (failures > 0)
			break;
	}
	POKE(&opening, false);
	pthread_join(thread, NULL);
	unlink(file);
}

int main(void)
{
	prepare();
	ALONE(test_fork_while_another_thread_opens);
	return finish();
}
