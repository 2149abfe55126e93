/*
 * Files in memory, for the methods of the Java class Native: the JVM appends to such a file, and
 * the class MemoryLines reads it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <jni.h>
#include <sys/mman.h>
#include <unistd.h>

#define METHOD(type, name) \
	JNIEXPORT type JNICALL Java_io_github_cloudprofiler_Native_##name(JNIEnv *env, jclass class

#define UNUSED ((void)env, (void)class)

/* memoryFile returns the descriptor of a new file, or -1. */
METHOD(jint, memoryFile))
{
	UNUSED;
	return memfd_create("cloudprofiler-pauses", MFD_CLOEXEC);
}

/* forget frees the memory of the part of the file that was read already. The file keeps its size.
 * */
METHOD(void, forget), jint descriptor, jlong read_bytes)
{
	UNUSED;
	const off_t page = 4096;
	off_t whole = read_bytes / page * page;

	if (whole > 0) /* if it fails, the memory is only kept longer */
		(void)fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, whole);
}

METHOD(void, closeFile), jint descriptor)
{
	UNUSED;
	(void)close(descriptor);
}
