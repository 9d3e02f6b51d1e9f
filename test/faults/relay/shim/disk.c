/*
 * Stands between SQLite and the kernel: records what it writes and syncs, and
 * fails what it is told to, reads too. Compiled in memory by the compiler that Bun brings
 * along, so it needs neither headers nor a toolchain; it then puts itself into
 * the executable's relocations, where calls into libc go through.
 *
 * Only files whose path begins with `prefix` are touched.
 */
typedef unsigned int u32;
typedef unsigned long u64;
typedef long i64;

extern i64 pread64(int fd, void *bytes, u64 length, i64 offset);
extern i64 pwrite64(int fd, const void *bytes, u64 length, i64 offset);
extern int ftruncate64(int fd, i64 length);
extern int fsync(int fd);
extern int fdatasync(int fd);
extern int statfs(const char *path, void *result);
extern int stat(const char *path, void *result);
extern int fstat(int fd, void *result);
extern i64 readlink(const char *path, char *target, u64 size);
extern i64 writev(int fd, const void *parts, int count);
extern int mprotect(void *page, u64 length, int protection);
extern int snprintf(char *text, u64 size, const char *format, ...);
extern int strcmp(const char *a, const char *b);
extern int strncmp(const char *a, const char *b, u64 length);
extern u64 strlen(const char *text);
extern int getpid(void);
extern int kill(int process, int signal);
extern int *__errno_location(void);
extern int dl_iterate_phdr(int (*visit)(void *, u64, void *), void *data);

/* Shared with the campaign, which writes it while the relay runs: Shim.ts has the same fields. */
struct control {
  i64 skew; /* for the clock; preload.ts reads it */
  volatile u32 writeError, writeTimes;
  volatile u32 syncError, syncTimes;
  volatile u32 inLog; /* 1: of the write-ahead log, 0: of any other file */
  volatile u32 hits;
  volatile i64 disk; /* bytes of the pretended disk; 0 is the real one */
  volatile i64 foreign; /* bytes of it that others use */
  volatile i64 lastWrite; /* the process dies right after so many more writes; 0 is never */
  volatile u32 passFirst; /* so many calls pass before the first fails */
  volatile u32 readError, readTimes;
};

static struct control *control;
static const char *prefix;
static int trace = -1;

static int failed(int error) {
  *__errno_location() = error;
  return -1;
}

/* ---- which file */

static int tracked(int fd, char *path, u64 size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  i64 length = readlink(link, path, size - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strncmp(path, prefix, strlen(prefix)) == 0;
}

/* The journal's file, or its write-ahead log. The index beside it is none of them, and may fail. */
static int isJournal(const char *path, int inLog) {
  return strcmp(path + strlen(prefix), inLog ? "-wal" : "") == 0;
}

/* ---- what is recorded */

struct record { u32 kind, pathLength; i64 offset, length; };
struct part { const void *bytes; u64 length; };

static void note(char kind, const char *path, i64 offset, const void *bytes, i64 length) {
  if (trace < 0) return;
  struct record record;
  struct part parts[3];
  record.kind = kind;
  record.pathLength = strlen(path);
  record.offset = offset;
  record.length = length;
  parts[0].bytes = &record;
  parts[0].length = sizeof record;
  parts[1].bytes = path;
  parts[1].length = record.pathLength;
  parts[2].bytes = bytes;
  parts[2].length = bytes == 0 ? 0 : length;
  writev(trace, parts, 3);
}

/* ---- what is failed */

static int fails(volatile u32 *error, volatile u32 *times, const char *path) {
  if (*times == 0 || !isJournal(path, control->inLog == 1)) return 0;
  if (control->passFirst > 0) {
    control->passFirst -= 1;
    return 0;
  }
  *times -= 1;
  control->hits += 1;
  return *error;
}

static i64 sizeIn(const char *status) { return *(const i64 *)(status + 48); }

static const char *const suffixes[] = {"", "-wal", "-lock", "-mark", "-ballast"};

static i64 freeBytes(void) {
  char path[4096], status[256];
  i64 used = control->foreign;
  for (int i = 0; i < 5; i++) {
    snprintf(path, sizeof path, "%s%s", prefix, suffixes[i]);
    if (stat(path, status) == 0) used += sizeIn(status);
  }
  return used > control->disk ? 0 : control->disk - used;
}

static int noRoom(int fd, i64 end) {
  char status[256];
  if (control->disk == 0 || fstat(fd, status) != 0) return 0;
  i64 more = end - sizeIn(status);
  if (more <= 0 || more <= freeBytes()) return 0;
  control->hits += 1;
  return 1;
}

/* ---- in place of libc's */

enum { killed = 9, noSpace = 28 };

i64 onPwrite(int fd, const void *bytes, u64 length, i64 offset) {
  char path[4096];
  if (!tracked(fd, path, sizeof path)) return pwrite64(fd, bytes, length, offset);
  int error = fails(&control->writeError, &control->writeTimes, path);
  if (error != 0) return failed(error);
  if (noRoom(fd, offset + length)) return failed(noSpace);
  i64 written = pwrite64(fd, bytes, length, offset);
  if (written > 0) note('W', path, offset, bytes, written);
  if (control->lastWrite > 0 && --control->lastWrite == 0) kill(getpid(), killed);
  return written;
}

i64 onPread(int fd, void *bytes, u64 length, i64 offset) {
  char path[4096];
  if (control->readTimes > 0 && tracked(fd, path, sizeof path)) {
    int error = fails(&control->readError, &control->readTimes, path);
    if (error != 0) return failed(error);
  }
  return pread64(fd, bytes, length, offset);
}

int onTruncate(int fd, i64 length) {
  char path[4096];
  int result = ftruncate64(fd, length);
  if (result == 0 && tracked(fd, path, sizeof path)) note('T', path, length, 0, 0);
  return result;
}

static int onSync(int fd, int (*sync)(int)) {
  char path[4096];
  if (!tracked(fd, path, sizeof path)) return sync(fd);
  int error = fails(&control->syncError, &control->syncTimes, path);
  if (error != 0) return failed(error);
  /* What another thread writes meanwhile is not taken for synced. */
  note('B', path, 0, 0, 0);
  int result = sync(fd);
  if (result == 0) note('S', path, 0, 0, 0);
  return result;
}

int onFsync(int fd) { return onSync(fd, fsync); }
int onFdatasync(int fd) { return onSync(fd, fdatasync); }

int onStatfs(const char *path, void *result) {
  int answer = statfs(path, result);
  /* struct statfs: type, block size, blocks, free, available; all of 8 bytes. */
  i64 *fields = result;
  if (answer == 0 && control->disk != 0) fields[4] = fields[3] = freeBytes() / fields[1];
  return answer;
}

/* ---- into the relocations */

struct hook { const char *name; void *function; };
static const struct hook hooks[] = {
  {"pwrite64", onPwrite}, {"ftruncate64", onTruncate}, {"fsync", onFsync},
  {"fdatasync", onFdatasync}, {"statfs", onStatfs}, {"pread64", onPread},
};

struct segment { u32 type, flags; u64 offset, address, physical, inFile, inMemory, align; };
struct object { u64 base; const char *name; const struct segment *segments; unsigned short count; };
struct dynamic { u64 tag, value; };
struct symbol { u32 name; u32 info; u64 value, size; };
struct relocation { u64 at, info; i64 addend; };

static int put(u64 base, const struct relocation *first, u64 bytes, const struct symbol *symbols, const char *names) {
  int count = 0;
  for (u64 i = 0; i < bytes / sizeof *first; i++) {
    const char *name = names + symbols[first[i].info >> 32].name;
    for (int h = 0; h < 6; h++) {
      if (strcmp(name, hooks[h].name) != 0) continue;
      void **slot = (void **)(base + first[i].at);
      mprotect((void *)((u64)slot & ~65535UL), 131072, 3);
      *slot = hooks[h].function;
      count++;
    }
  }
  return count;
}

/* The first object is the executable itself. */
static int visit(void *found, u64 size, void *result) {
  const struct object *object = found;
  const struct dynamic *dynamic = 0;
  for (int i = 0; i < object->count; i++)
    if (object->segments[i].type == 2) dynamic = (const struct dynamic *)(object->base + object->segments[i].address);
  if (dynamic == 0) return 1;
  u64 value[26];
  for (int i = 0; i < 26; i++) value[i] = 0;
  for (; dynamic->tag != 0; dynamic++)
    if (dynamic->tag < 26) value[dynamic->tag] = dynamic->value;
  const char *names = (const char *)value[5];
  const struct symbol *symbols = (const struct symbol *)value[6];
  *(int *)result = put(object->base, (const struct relocation *)value[7], value[8], symbols, names) +
                   put(object->base, (const struct relocation *)value[23], value[2], symbols, names);
  return 1;
}

/* How many places it put itself into. */
int install(void *shared, const char *files, int traceFile) {
  int count = 0;
  control = shared;
  prefix = files;
  trace = traceFile;
  dl_iterate_phdr(visit, &count);
  return count;
}
