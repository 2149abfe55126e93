/*
 * Loads the native library and calls the methods of the Java class Native, as a JVM does. An object
 * of Java is a struct object here. So the library can be tested with musl without a JVM that uses
 * musl.
 *
 *	load LIBRARY
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jni.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what)                                                                      \
	do {                                                                             \
		if (!(what)) {                                                           \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

/* METHOD finds a method of Native, whose parameters begin with an environment and a class. */
#define METHOD(result, name, parameters) \
	((result(*) parameters)(uintptr_t)found("Java_io_github_cloudprofiler_Native_" name))

/* object is an array of bytes, of longs, or of objects. */
struct object {
	jsize n;
	void *data;
};

static void *library;

static void *found(const char *name)
{
	void *f = dlsym(library, name);

	if (f == NULL)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(f != NULL);
	return f;
}

static void *object(jsize n, size_t each, const void *data)
{
	struct object *o = malloc(sizeof(*o));

	CHECK(o != NULL);
	o->n = n;
	o->data = calloc((size_t)n + 1, each);
	CHECK(o->data != NULL);
	if (data != NULL)
		memcpy(o->data, data, (size_t)n * each);
	return o;
}

static void *data(jobject o) { return ((struct object *)o)->data; }

static jsize JNICALL length(JNIEnv *e, jarray a)
{
	(void)e;
	return ((struct object *)a)->n;
}

static void JNICALL bytes_out(JNIEnv *e, jbyteArray a, jsize at, jsize n, jbyte *to)
{
	(void)e;
	memcpy(to, (jbyte *)data(a) + at, (size_t)n);
}

static void JNICALL bytes_in(JNIEnv *e, jbyteArray a, jsize at, jsize n, const jbyte *from)
{
	(void)e;
	memcpy((jbyte *)data(a) + at, from, (size_t)n);
}

static void JNICALL longs_out(JNIEnv *e, jlongArray a, jsize at, jsize n, jlong *to)
{
	(void)e;
	memcpy(to, (jlong *)data(a) + at, (size_t)n * sizeof(jlong));
}

static void JNICALL longs_in(JNIEnv *e, jlongArray a, jsize at, jsize n, const jlong *from)
{
	(void)e;
	memcpy((jlong *)data(a) + at, from, (size_t)n * sizeof(jlong));
}

static jbyteArray JNICALL new_bytes(JNIEnv *e, jsize n)
{
	(void)e;
	return object(n, 1, NULL);
}

static jlongArray JNICALL new_longs(JNIEnv *e, jsize n)
{
	(void)e;
	return object(n, sizeof(jlong), NULL);
}

static void JNICALL set_object(JNIEnv *e, jobjectArray a, jsize at, jobject value)
{
	(void)e;
	((jobject *)data(a))[at] = value;
}

static const struct JNINativeInterface_ functions = {
	.GetArrayLength = length,
	.GetByteArrayRegion = bytes_out,
	.SetByteArrayRegion = bytes_in,
	.GetLongArrayRegion = longs_out,
	.SetLongArrayRegion = longs_in,
	.NewByteArray = new_bytes,
	.NewLongArray = new_longs,
	.SetObjectArrayElement = set_object,
};
static JNIEnv env = &functions;

static jbyteArray text(const char *s) { return object((jsize)strlen(s), 1, s); }

static jlong opened(const char *name, const char *handler, const char *dir)
{
	jobjectArray why = object(1, sizeof(jobject), NULL);
	jlong c = METHOD(jlong, "open",
			 (JNIEnv *, jclass, jbyteArray, jbyteArray, jlongArray, jbyteArray,
			  jbyteArray, jbyteArray, jboolean, jobjectArray))(
		&env, NULL, text(name), text(handler), object(5, sizeof(jlong), NULL),
		text("overwrite"), NULL, text(dir), JNI_FALSE, why);

	if (c == 0)
		fprintf(stderr, "%s\n", (char *)data(((jobject *)data(why))[0]));
	CHECK(c != 0);
	return c;
}

enum { TAIL = 4096, WORD = 4096 + 48 }; /* ring/FORMAT.md has these offsets */

/* ring opens the file of a channel's ring. */
static FILE *ring(jlong channel)
{
	FILE *f = fopen(data(METHOD(jbyteArray, "path", (JNIEnv *, jclass, jlong))(&env, NULL,
										    channel)),
			"r+b");

	CHECK(f != NULL);
	return f;
}

/* records returns how many records are in a ring. */
static uint64_t records(jlong channel)
{
	FILE *f = ring(channel);
	uint64_t n;

	CHECK(fseek(f, TAIL, SEEK_SET) == 0 && fread(&n, sizeof(n), 1, f) == 1);
	fclose(f);
	return n;
}

/* damage makes the switching word of a ring 0. Then the channel must keep nothing. */
static void damage(jlong channel)
{
	FILE *f = ring(channel);

	CHECK(fseek(f, WORD, SEEK_SET) == 0);
	CHECK(fwrite(&(uint64_t){0}, sizeof(uint64_t), 1, f) == 1 && fclose(f) == 0);
}

static jlong *hurried;
static jlong first, second;

static int made(uint64_t parent, uint64_t child)
{
	int (*f)(jlong, jlong, uint64_t, uint64_t) =
		(int (*)(jlong, jlong, uint64_t, uint64_t))hurried[4];

	return f(first, second, parent, child);
}

/* log_here makes the hurried calls, in any thread: each has thread-local variables of its own. */
static void *log_here(void *unused)
{
	int (*log)(jlong, uint64_t) = (int (*)(jlong, uint64_t))hurried[0];
	int (*log_at)(jlong, uint64_t, uint64_t) = (int (*)(jlong, uint64_t, uint64_t))hurried[1];
	int (*link)(jlong, uint64_t, uint64_t) = (int (*)(jlong, uint64_t, uint64_t))hurried[2];
	uint64_t (*counter)(void) = (uint64_t(*)(void))hurried[3];
	uint64_t before = counter();

	(void)unused;
	CHECK(before != 0 && counter() > before);
	CHECK(log(first, 1) == 0 && log_at(first, before, 2) == 0);
	CHECK(link(second, 3, 4) == 0 && made(5, 6) == 0);
	return NULL;
}

int main(int argc, char **argv)
{
	char dir[] = "/dev/shm/cloudprofiler-load-XXXXXX", command[64];
	pthread_t other;
	jlong ids;

	CHECK(argc == 2 && mkdtemp(dir) != NULL);
	library = dlopen(argv[1], RTLD_NOW);
	if (library == NULL)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library != NULL);
	first = opened("load/first", "id", dir);
	second = opened("load/second", "link", dir);
	hurried = data(METHOD(jlongArray, "hurried", (JNIEnv *, jclass))(&env, NULL));
	log_here(NULL);
	CHECK(pthread_create(&other, NULL, log_here, NULL) == 0 && pthread_join(other, NULL) == 0);
	CHECK(METHOD(jint, "log", (JNIEnv *, jclass, jlong, jlong))(&env, NULL, first, 7) == 0);
	CHECK(records(first) == 7 && records(second) == 8);
	damage(first);
	CHECK(made(8, 9) == 0);
	CHECK(records(first) == 7 && records(second) == 10);

	ids = METHOD(jlong, "openIds", (JNIEnv *, jclass, jbyteArray, jint, jobjectArray))(
		&env, NULL, text(dir), -1, object(1, sizeof(jobject), NULL));
	CHECK(ids != 0);
	CHECK(METHOD(jlong, "nextId", (JNIEnv *, jclass, jlong))(&env, NULL, ids) !=
	      METHOD(jlong, "nextId", (JNIEnv *, jclass, jlong))(&env, NULL, ids));

	METHOD(void, "retire", (JNIEnv *, jclass, jlong))(&env, NULL, first);
	METHOD(jint, "log", (JNIEnv *, jclass, jlong, jlong))(&env, NULL, first, 8);
	METHOD(void, "free", (JNIEnv *, jclass, jlong))(&env, NULL, first);
	/* This closes the rest. */
	((void (*)(JavaVM *, void *))(uintptr_t)found("JNI_OnUnload"))(NULL, NULL);
	dlclose(library);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command) == 0 ? 0 : 1;
}
