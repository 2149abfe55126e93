/*
 * Checks the clock with the script replay/clock/testdata/conformance.txt, from the standard input.
 * internal/conformance runs it as C and as C++.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cloudprofiler_clock.h"

static cp_clock clocks[256];
static int64_t epsilon;
static char text[3][8192];
static int line_number;

static void fail(const char *what) {
	fprintf(stderr, "line %d: %s\n", line_number, what);
	exit(1);
}

static size_t hex_bytes(unsigned char bytes[CP_STAMP_BYTES], const char *hex) {
	size_t n = strlen(hex) / 2;
	unsigned value = 0;
	if (n > CP_STAMP_BYTES)
		fail("a stamp is too long");
	for (size_t i = 0; i < n; i++) {
		if (sscanf(hex + 2 * i, "%2x", &value) != 1)
			fail("not hexadecimal");
		bytes[i] = (unsigned char)value;
	}
	return n;
}

static void read_stamp(cp_stamp *s, const char *hex) {
	unsigned char bytes[CP_STAMP_BYTES];
	size_t n = hex_bytes(bytes, hex);
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

/* A stamp that is full leaves out other processes, and the clock says so. The events of the clock's
 * own process stay in order. */
static void fill(void) {
	static cp_clock c, others[CP_CLOCK_HELD + 5];
	static cp_stamp before;
	cp_clock_open(&c, 1000000, 1000);
	for (int p = 0; p < CP_CLOCK_HELD + 5; p++) {
		cp_clock_open(&others[p], p, 1000);
		cp_clock_send(&others[p], 5000 + p % 7);
		cp_clock_receive(&c, 5000, &others[p].now);
	}
	if (c.now.held != CP_CLOCK_HELD || c.left_out < 5)
		fail("a full stamp");
	before = c.now;
	cp_clock_local(&c, 5000);
	if (cp_stamp_compare(&before, &c.now, 1000) != -1)
		fail("the order of events with full stamps");
	cp_clock_local(&c, 5100);
	if (cp_stamp_find(&c.now, 1000000) == c.now.held)
		fail("a full stamp leaves out its own process");
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
			for (int p = 0; p < 256; p++)
				cp_clock_open(&clocks[p], p, epsilon);
		} else if (line[0] == '#') {
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
		} else if (sscanf(line, "bad %8191s", text[0]) == 1) {
			unsigned char bytes[CP_STAMP_BYTES];
			if (cp_stamp_read(&a, epsilon, bytes, hex_bytes(bytes, text[0])) != 0)
				fail("a bad stamp is read");
		} else {
			fail("not understood");
		}
		passed++;
	}
	fill();
	printf("%d\n", passed);
	return 0;
}
