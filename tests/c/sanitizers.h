/* sanitizers.h: what a test is compiled with. Sanitizers forbid some things, and take their time over the others. */
#ifndef BK_TESTS_SANITIZERS_H
#define BK_TESTS_SANITIZERS_H

#if defined(__has_feature)
#define HAS_SANITIZER(which) __has_feature(which##_sanitizer)
#else
#define HAS_SANITIZER(which) 0
#endif
#if defined(__SANITIZE_THREAD__) || HAS_SANITIZER(thread)
enum { UNDER_TSAN = 1, UNDER_ASAN = 0 };
#elif defined(__SANITIZE_ADDRESS__) || HAS_SANITIZER(address)
enum { UNDER_TSAN = 0, UNDER_ASAN = 1 };
#else
enum { UNDER_TSAN = 0, UNDER_ASAN = 0 };
#endif

enum {
    CAN_FORK = !UNDER_TSAN,                     /* ThreadSanitizer: no threads in a forked child */
    CAN_EXIT_CHILD = !UNDER_TSAN && !UNDER_ASAN /* AddressSanitizer's leak check looks for the parent's threads */
};

#endif
