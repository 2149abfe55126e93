/*
 * Checks the clock with the script replay/clock/testdata/conformance.txt, from the standard input.
 * It leaves out the system with processes above 63. internal/conformance runs it as C and as C++.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cloudprofiler_clock.h"

static cp_clock clocks[64];
static int64_t epsilon;
static char text[3][8192];
static int line_number;

static void fail(const char *what) {
	fprintf(stderr, "line %d: %s\n", line_number, what);
	exit(1);
}

static void read_stamp(cp_stamp *s, const char *hex) {
	unsigned char bytes[CP_STAMP_BYTES];
	size_t n = strlen(hex) / 2;
	unsigned value = 0;
	if (n > sizeof bytes)
		fail("a stamp is too long");
	for (size_t i = 0; i < n; i++) {
		if (sscanf(hex + 2 * i, "%2x", &value) != 1)
			fail("not hexadecimal");
		bytes[i] = (unsigned char)value;
	}
	if (cp_stamp_read(s, epsilon, bytes, n) != n)
		fail("a stamp is not read");
	if (cp_stamp_read(s, epsilon, bytes, n - 8) != 0)
		fail("a stamp is read although its end is missing");
	if (cp_stamp_read(s, epsilon, bytes, n) != n)
		fail("a stamp is not read again");
}

static void expect(const cp_stamp *s, const char *hex) {
	unsigned char bytes[CP_STAMP_BYTES];
	char got[2 * CP_STAMP_BYTES + 1];
	size_t n = cp_stamp_write(s, epsilon, bytes, sizeof bytes);
	for (size_t i = 0; i < n; i++)
		snprintf(got + 2 * i, 3, "%02x", bytes[i]);
	got[2 * n] = 0;
	if (strcmp(got, hex) != 0)
		fail("the stamp has other bytes");
}

int main(void) {
	static char line[32768];
	int passed = 0;
	long long number;
	while (fgets(line, sizeof line, stdin) != NULL) {
		long long epoch;
		int process, kept, order;
		cp_stamp a, b;
		line_number++;
		if (sscanf(line, "system %lld", &number) == 1) {
			epsilon = (int64_t)number;
			for (int p = 0; p < 64; p++)
				cp_clock_open(&clocks[p], p, epsilon);
		} else if (line[0] == '#' || epsilon == 255) {
			continue;
		} else if (sscanf(line, "local %d %lld %8191s", &process, &epoch, text[0]) == 3) {
			cp_clock_local(&clocks[process], (int64_t)epoch);
			expect(&clocks[process].now, text[0]);
		} else if (sscanf(line, "receive %d %lld %8191s %d %8191s", &process, &epoch, text[0],
		               &kept, text[1]) == 5) {
			read_stamp(&a, text[0]);
			if (cp_clock_receive(&clocks[process], (int64_t)epoch, &a) != kept)
				fail("whether the bound was broken");
			expect(&clocks[process].now, text[1]);
		} else if (sscanf(line, "compare %8191s %8191s %d", text[0], text[1], &order) == 3) {
			read_stamp(&a, text[0]);
			read_stamp(&b, text[1]);
			if (cp_stamp_compare(&a, &b, epsilon) != order)
				fail("the order of two stamps");
		} else {
			fail("not understood");
		}
		passed++;
	}
	printf("%d\n", passed);
	return 0;
}
