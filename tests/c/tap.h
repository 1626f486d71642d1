/* tap.h: test results in the Test Anything Protocol. A test program is a main of tap_ok calls that returns tap_done().
 * Each check's name is a sentence that says what holds. */
#ifndef BK_TESTS_TAP_H
#define BK_TESTS_TAP_H
#include <stdarg.h>
#include <stdio.h>

static int tap_count, tap_failed;

/* Prints one result; returns the condition, so that a test may stop or say more when it fails. */
__attribute__((format(printf, 2, 3), unused)) static int tap_ok(int condition, const char *name, ...)
{
    va_list arguments;
    va_start(arguments, name);
    tap_count++;
    tap_failed += !condition;
    printf("%sok %d - ", condition ? "" : "not ", tap_count);
    vprintf(name, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
    return condition;
}

/* Prints the plan; the program's exit code. */
__attribute__((unused)) static int tap_done(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed != 0;
}

#endif
