/* Loads the library as a plugin host would: a plain C program, by dlopen, and again from a thread that ran before. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t loaded;

static void* wait_for_load(void* arguments) {
  (void)arguments;
  pthread_barrier_wait(&loaded);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t early;
  void* library;
  if (argc != 2) return 2;
  pthread_barrier_init(&loaded, NULL, 2);
  if (pthread_create(&early, NULL, wait_for_load, NULL) != 0) return 2;
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "dlopen: %s\n", dlerror());
    return 1;
  }
  pthread_barrier_wait(&loaded);
  pthread_join(early, NULL);
  puts("loaded");
  return 0;
}
