/* The service epoll: one thread reads the requests of all connections with epoll, and worker
   threads answer them. A worker asks Redis, tells the service tasks over a UNIX socket that it has
   asked Redis, and answers the request.

   epoll PORT REDIS_HOST REDIS_PORT TASKS_PATH THREADS TRUTH */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MUST(x) do { if ((x) < 0) { perror(#x); exit(1); } } while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static FILE *truth;
static int noted;

typedef struct {
    int fd;
    char socket[80];
    char part[256];
    size_t held;
    pthread_mutex_t saying;
} conn;

static struct job { conn *from; int n; char id[24]; } jobs[4096];
static unsigned first, last;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* note writes one line of truth and returns its number. */
static int note(char kind, conn *c, const char *id, ssize_t bytes, int64_t before, int cause) {
    int64_t after = now();
    pthread_mutex_lock(&lock);
    int n = ++noted;
    fprintf(truth, "%d\t%c\t%s\t%s\t%zd\t%" PRId64 "\t%" PRId64 "\t", n, kind, c->socket, id,
            bytes, before, after);
    fprintf(truth, cause ? "%d\n" : "\n", cause);
    pthread_mutex_unlock(&lock);
    return n;
}

static void name_socket(conn *c) {
    struct sockaddr_in a[2];
    socklen_t length = sizeof *a;
    getsockname(c->fd, (struct sockaddr *)&a[0], &length);
    if (a[0].sin_family == AF_UNIX) {
        uint64_t cookie;
        length = sizeof cookie;
        MUST(getsockopt(c->fd, SOL_SOCKET, SO_COOKIE, &cookie, &length));
        sprintf(c->socket, "unix %" PRIu64, cookie);
        return;
    }
    char host[2][INET_ADDRSTRLEN];
    getpeername(c->fd, (struct sockaddr *)&a[1], &length);
    for (int i = 0; i < 2; i++) inet_ntop(AF_INET, &a[i].sin_addr, host[i], sizeof host[i]);
    sprintf(c->socket, "tcp %s:%d %s:%d", host[0], ntohs(a[0].sin_port), host[1],
            ntohs(a[1].sin_port));
    int yes = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static conn *dial(int family, void *address, socklen_t length) {
    conn *c = calloc(1, sizeof *c);
    MUST(c->fd = socket(family, SOCK_STREAM, 0));
    MUST(connect(c->fd, address, length));
    name_socket(c);
    return c;
}

/* say sends a text. Threads take turns, so that truth has the texts in the stream's order. */
static void say(conn *c, const char *id, int cause, const char *text) {
    pthread_mutex_lock(&c->saying);
    int64_t before = now();
    ssize_t n;
    MUST(n = write(c->fd, text, strlen(text)));
    note('S', c, id, n, before, cause);
    pthread_mutex_unlock(&c->saying);
}

static conn *tasks;

static void *work(void *redis) {
    conn *r = redis;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (first == last) pthread_cond_wait(&more, &lock);
        struct job j = jobs[first++ % 4096];
        pthread_mutex_unlock(&lock);
        char text[64];
        snprintf(text, sizeof text, "INCR of:%s\r\n", j.id);
        say(r, j.id, j.n, text);
        int64_t before = now();
        ssize_t n;
        MUST(n = read(r->fd, text, sizeof text));
        int answered = note('R', r, j.id, n, before, 0);
        snprintf(text, sizeof text, "%s\n", j.id);
        say(tasks, j.id, answered, text);
        say(j.from, j.id, answered, text);
    }
    return NULL;
}

/* take reads from a connection, and gives whole requests to the workers. */
static int take(conn *c) {
    int64_t before = now();
    ssize_t n = read(c->fd, c->part + c->held, sizeof c->part - c->held - 1);
    if (n <= 0) return 0;
    c->held += n;
    c->part[c->held] = 0;
    int whole = c->part[c->held - 1] == '\n'; /* callers wait for the answer */
    char id[24] = "";
    sscanf(c->part, "%23[0-9]", id);
    int number = note('R', c, id, n, before, 0);
    if (whole) {
        pthread_mutex_lock(&lock);
        struct job *j = &jobs[last++ % 4096];
        *j = (struct job){.from = c, .n = number};
        strcpy(j->id, id);
        pthread_cond_signal(&more);
        pthread_mutex_unlock(&lock);
        c->held = 0;
    }
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, NULL);
    truth = fopen(argv[6], "w");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    struct sockaddr_in redis = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    inet_pton(AF_INET, argv[2], &redis.sin_addr);
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    strncpy(path.sun_path, argv[4], sizeof path.sun_path - 1);
    tasks = dial(AF_UNIX, &path, sizeof path);
    for (int i = 0; i < atoi(argv[5]); i++) {
        pthread_t t;
        pthread_create(&t, NULL, work, dial(AF_INET, &redis, sizeof redis));
    }
    int listener, ends, all, yes = 1;
    MUST(listener = socket(AF_INET, SOCK_STREAM, 0));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    MUST(bind(listener, (struct sockaddr *)&at, sizeof at));
    MUST(listen(listener, 128));
    MUST(ends = signalfd(-1, &end, 0));
    MUST(all = epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &listener};
    MUST(epoll_ctl(all, EPOLL_CTL_ADD, listener, &e));
    e.data.ptr = &ends;
    MUST(epoll_ctl(all, EPOLL_CTL_ADD, ends, &e));
    for (;;) {
        int n = epoll_wait(all, &e, 1, -1);
        if (n < 1) continue;
        if (e.data.ptr == &ends) break;
        if (e.data.ptr == &listener) {
            conn *c = calloc(1, sizeof *c);
            MUST(c->fd = accept(listener, NULL, NULL));
            name_socket(c);
            e = (struct epoll_event){.events = EPOLLIN, .data.ptr = c};
            MUST(epoll_ctl(all, EPOLL_CTL_ADD, c->fd, &e));
        } else if (!take(e.data.ptr)) {
            close(((conn *)e.data.ptr)->fd);
        }
    }
    pthread_mutex_lock(&lock);
    fclose(truth);
    _exit(0);
}
