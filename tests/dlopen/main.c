/* Loads the library as a plugin host would: a plain C program, by dlopen. Calls it from the thread that loaded it and from
 * a thread that was there before, whose thread-local variables of the library do not exist yet. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* const tessera::RankPlace& tessera::current_place(): the place of the calling thread, which is thread-local. */
#define CURRENT_PLACE "_ZN7tessera13current_placeEv"

typedef const void* (*CurrentPlace)(void);

static pthread_barrier_t loaded;
static CurrentPlace current_place;

static void* call_after_load(void* arguments) {
  (void)arguments;
  pthread_barrier_wait(&loaded);
  return current_place == NULL ? NULL : (void*)current_place();
}

int main(int argc, char** argv) {
  pthread_t early;
  void* library;
  void* seen = NULL;
  if (argc != 2) return 2;
  pthread_barrier_init(&loaded, NULL, 2);
  if (pthread_create(&early, NULL, call_after_load, NULL) != 0) return 2;
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "dlopen: %s\n", dlerror());
    return 1;
  }
  *(void**)&current_place = dlsym(library, CURRENT_PLACE);
  pthread_barrier_wait(&loaded);
  pthread_join(early, &seen);
  if (current_place == NULL) {
    fprintf(stderr, "dlsym: the library does not export %s\n", CURRENT_PLACE);
    return 1;
  }
  if (seen == NULL || current_place() == NULL) {
    fprintf(stderr, "the library has no place for a thread that called it\n");
    return 1;
  }
  puts("loaded, and called from two threads");
  return 0;
}
