/*
 * These are the methods of the Java class Native. Java knows a channel (cp_channel), or a source of
 * ids (cp_ids), only as a number: its address in memory, or 0 if there is none.
 *
 * Texts are bytes that end with a NUL, because JNI's own encoding is not quite UTF-8.
 */
#include <jni.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "hurried.h"
#include "retire.h"

#define METHOD(type, name) \
	JNIEXPORT type JNICALL Java_io_github_cloudprofiler_Native_##name(JNIEnv *env, jclass class

#define UNUSED ((void)env, (void)class)

_Static_assert(sizeof(jlong) == sizeof(void *), "a jlong holds an address");

static cp_channel *channel_at(jlong address) { return (cp_channel *)(uintptr_t)address; }

static cp_ids *ids_at(jlong address) { return (cp_ids *)(uintptr_t)address; }

static jlong address_of(const volatile void *p) { return (jlong)(uintptr_t)p; }

/* copy_in returns a copy of a text, or NULL if there is none. */
static char *copy_in(JNIEnv *env, jbyteArray text)
{
	if (text == NULL)
		return NULL;
	jsize n = (*env)->GetArrayLength(env, text);
	char *copy = calloc((size_t)n + 1, 1);
	if (copy != NULL)
		(*env)->GetByteArrayRegion(env, text, 0, n, (jbyte *)copy);
	return copy;
}

/* copy_out returns a text's bytes, or NULL if there is none. */
static jbyteArray copy_out(JNIEnv *env, const char *text)
{
	if (text == NULL)
		return NULL;
	jsize n = (jsize)strlen(text);
	jbyteArray copy = (*env)->NewByteArray(env, n);
	if (copy != NULL)
		(*env)->SetByteArrayRegion(env, copy, 0, n, (const jbyte *)text);
	return copy;
}

/*
 * struct owned is for a channel, or for ids, that programs have opened with this copy of the
 * library. When the JVM unloads the library's class loader, nobody else can close them, so
 * JNI_OnUnload does.
 */
struct owned {
	struct owned *next;
	void *what;
	void (*end)(void *what);
};

static pthread_mutex_t owning = PTHREAD_MUTEX_INITIALIZER;
static struct owned *all_owned; /* owning protects it */

static bool own(void *what, void (*end)(void *what))
{
	struct owned *o = malloc(sizeof(*o));

	if (o == NULL)
		return false;
	*o = (struct owned){.next = NULL, .what = what, .end = end};
	pthread_mutex_lock(&owning);
	o->next = all_owned;
	all_owned = o;
	pthread_mutex_unlock(&owning);
	return true;
}

static void disown(void *what)
{
	struct owned *found = NULL;

	pthread_mutex_lock(&owning);
	for (struct owned **o = &all_owned; *o != NULL; o = &(*o)->next) {
		if ((*o)->what == what) {
			found = *o;
			*o = found->next;
			break;
		}
	}
	pthread_mutex_unlock(&owning);
	free(found);
}

static void end_channel(void *c)
{
	cp_retire(c);
	cp_free(c);
}

static void end_ids(void *ids) { cp_ids_close(ids); }

JNIEXPORT void JNICALL JNI_OnUnload(JavaVM *vm, void *reserved)
{
	(void)vm;
	(void)reserved;
	while (all_owned != NULL) {
		struct owned *o = all_owned;
		o->end(o->what);
		all_owned = o->next;
		free(o);
	}
}

/*
 * open returns the address of a channel. If the channel cannot be opened, it returns 0, and stores
 * the reason in why[0].
 */
METHOD(jlong, open), jbyteArray name, jbyteArray handler, jlongArray numbers, jbyteArray policy,
	jbyteArray stamp, jbyteArray dir, jboolean shared, jobjectArray why)
{
	enum { N, X, Y, PERIOD_NS, BUFFER_BYTES, NUMBERS };
	jlong number[NUMBERS];
	char *texts[] = {copy_in(env, name), copy_in(env, handler), copy_in(env, policy),
			 copy_in(env, stamp), copy_in(env, dir)};
	(void)class;

	(*env)->GetLongArrayRegion(env, numbers, 0, NUMBERS, number);
	cp_options o = {
		.handler = texts[1],
		.n = (uint64_t)number[N],
		.x = (uint64_t)number[X],
		.y = (uint64_t)number[Y],
		.period_ns = (uint64_t)number[PERIOD_NS],
		.policy = texts[2],
		.stamp = texts[3],
		.buffer_bytes = (size_t)number[BUFFER_BYTES],
		.dir = texts[4],
	};
	cp_channel *c = shared ? cp_open_shared(texts[0], &o) : cp_open(texts[0], &o);
	const char *error = cp_error(c);
	if (error == NULL && !own(c, end_channel))
		error = "open channel: no memory";
	if (error != NULL) {
		jbyteArray text = copy_out(env, error);
		cp_close(c);
		c = NULL;
		if (text != NULL)
			(*env)->SetObjectArrayElement(env, why, 0, text);
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		free(texts[i]);
	return address_of(c);
}

METHOD(jbyteArray, path), jlong channel)
{
	(void)class;
	return copy_out(env, cp_path(channel_at(channel)));
}

/* word returns a buffer that shows the switching word. The buffer is valid until free is called. */
METHOD(jobject, word), jlong channel)
{
	(void)class;
	struct channel *c = (struct channel *)channel_at(channel);
	return (*env)->NewDirectByteBuffer(env, c->word, sizeof(*c->word));
}

METHOD(jlong, wordAddress), jlong channel)
{
	UNUSED;
	return address_of(((struct channel *)channel_at(channel))->word);
}

/*
 * adopt makes the channel use its newest settings. It stores their switching word, the number of
 * the handler, and the two numbers of a handler that keeps only some events.
 */
METHOD(void, adopt), jlong channel, jlongArray settings)
{
	(void)class;
	struct adopted set = cp_adopt((struct channel *)channel_at(channel));
	jlong numbers[] = {(jlong)set.word, (jlong)set.kind, (jlong)set.below, (jlong)set.modulus};
	(*env)->SetLongArrayRegion(env, settings, 0, 4, numbers);
}

METHOD(jint, log), jlong channel, jlong id)
{
	UNUSED;
	cp_log(channel_at(channel), (uint64_t)id);
	return 0;
}

METHOD(jint, logAt), jlong channel, jlong counter, jlong id)
{
	UNUSED;
	cp_log_at(channel_at(channel), (uint64_t)counter, (uint64_t)id);
	return 0;
}

METHOD(jint, link), jlong channel, jlong parent, jlong child)
{
	UNUSED;
	cp_link(channel_at(channel), (uint64_t)parent, (uint64_t)child);
	return 0;
}

METHOD(jint, made), jlong channel, jlong links, jlong parent, jlong child)
{
	UNUSED;
	return cp_hurried_made(channel_at(channel), channel_at(links), (uint64_t)parent,
			       (uint64_t)child);
}

METHOD(jlong, counter))
{
	UNUSED;
	return (jlong)cp_counter();
}

/* keep writes the records of an event for which a hurried call found no room. It may wait. */
METHOD(void, keep), jlong channel, jlong id, jlong second, jint n, jlong given)
{
	UNUSED;
	uint64_t ids[] = {(uint64_t)id, (uint64_t)second};
	cp_keep((struct channel *)channel_at(channel), ids, (uint64_t)n, (uint64_t)given);
}

/* hurried returns the addresses of the calls that never wait (see hurried.h): log, logAt, link,
 * counter and made. */
METHOD(jlongArray, hurried))
{
	(void)class;
	jlong addresses[] = {(jlong)(uintptr_t)cp_hurried_log, (jlong)(uintptr_t)cp_hurried_log_at,
			     (jlong)(uintptr_t)cp_hurried_link,
			     (jlong)(uintptr_t)cp_hurried_counter,
			     (jlong)(uintptr_t)cp_hurried_made};
	jsize n = sizeof(addresses) / sizeof(*addresses);
	jlongArray array = (*env)->NewLongArray(env, n);
	if (array != NULL)
		(*env)->SetLongArrayRegion(env, array, 0, n, addresses);
	return array;
}

METHOD(jlong, dropped), jlong channel)
{
	UNUSED;
	return (jlong)cp_dropped(channel_at(channel));
}

METHOD(void, snapshot), jlong channel)
{
	UNUSED;
	cp_snapshot(channel_at(channel));
}

METHOD(void, retire), jlong channel)
{
	UNUSED;
	disown(channel_at(channel));
	cp_retire(channel_at(channel));
	/* From now on the channel needs no owner: if the loader goes away before free, only memory is
	 * lost. */
}

METHOD(void, free), jlong channel)
{
	UNUSED;
	cp_free(channel_at(channel));
}

/* openIds returns the address of ids. If they cannot be opened, it stores the reason in why[0]. */
METHOD(jlong, openIds), jbyteArray dir, jint instance, jobjectArray why)
{
	(void)class;
	char *wanted = copy_in(env, dir);
	cp_ids *ids = cp_ids_open(wanted, instance);
	const char *error = cp_ids_error(ids);

	free(wanted);
	if (error == NULL && !own(ids, end_ids))
		error = "open ids: no memory";
	if (error != NULL) {
		jbyteArray text = copy_out(env, error);
		cp_ids_close(ids);
		ids = NULL;
		if (text != NULL)
			(*env)->SetObjectArrayElement(env, why, 0, text);
	}
	return address_of(ids);
}

METHOD(jlong, nextId), jlong ids)
{
	UNUSED;
	uint64_t id;
	return cp_ids_next(ids_at(ids), &id) ? (jlong)id : (jlong)CP_POISON;
}

METHOD(jboolean, randomNode), jlong ids)
{
	UNUSED;
	return cp_ids_random_node(ids_at(ids)) ? JNI_TRUE : JNI_FALSE;
}

METHOD(void, closeIds), jlong ids)
{
	UNUSED;
	disown(ids_at(ids));
	cp_ids_close(ids_at(ids));
}
