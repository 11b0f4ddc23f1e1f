/*
 * Sets the wall clock of one program wrong: preloaded into it, adds to the time of day as many microseconds as
 * the file named by CLOCK_FILE says, in eight bytes that may change at any time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *offset_us;

__attribute__((constructor)) static void open_clock_file(void) {
  const char *path = getenv("CLOCK_FILE");
  int file = path ? open(path, O_RDONLY) : -1;
  void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof *offset_us, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) offset_us = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (result || !offset_us || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  long long us = now->tv_sec * 1000000LL + now->tv_nsec / 1000 + *offset_us;
  now->tv_sec = us / 1000000;
  now->tv_nsec = us % 1000000 * 1000;
  return 0;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (seconds) *seconds = precise.tv_sec;
  return precise.tv_sec;
}
