/* interrupt.c: a program that can be stopped in the midst of a long evaluation, and goes on where it was.
 *
 * A timer stands for the user's Ctrl-C. An evaluation that is stopped fails with BK_INTERRUPTED; nothing is lost and
 * nothing is done twice, so asking for the value again is all it takes. (From Python, Ctrl-C does this by itself and
 * arrives as KeyboardInterrupt.) */
#include <brisk.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { SIZE = 256, STEPS = 300 };

static void stop(int signal_number)
{
    (void)signal_number;
    bk_interrupt();
}

/* A long recording: it needs nothing but time. */
static bk_tensor *work(void)
{
    const int64_t sizes[] = { SIZE, SIZE };
    bk_manual_seed(0);
    bk_tensor *w = bk_mul_s(bk_randn(2, sizes, BK_FLOAT32, NULL), 0.1), *x = bk_ones(2, sizes, BK_FLOAT32);
    for (int i = 0; i < STEPS; i++)
        x = bk_tanh(bk_matmul(w, x));
    return bk_mean(bk_square(x), 0, false);
}

/* Its value, and how often it was stopped; NAN with the error set. */
static double finish(const bk_tensor *t, int *stops)
{
    while (bk_eval(t) < 0) {
        if (bk_error_code() != BK_INTERRUPTED)
            return NAN;
        bk_error_clear();
        ++*stops; /* here a program would ask whether to go on */
    }
    return bk_item(t);
}

int main(void)
{
    const struct itimerval often = { .it_interval = { .tv_usec = 5000 }, .it_value = { .tv_usec = 5000 } };
    const struct itimerval never = { .it_interval = { .tv_usec = 0 } };
    int stops = 0;
    bk_scope_push();
    double expected = finish(work(), &stops);
    signal(SIGALRM, stop);
    setitimer(ITIMER_REAL, &often, NULL);
    double value = finish(work(), &stops);
    setitimer(ITIMER_REAL, &never, NULL);
    if (isnan(value))
        fprintf(stderr, "%s\n", bk_error());
    else
        printf("%s on the way: %.6f; at a stretch: %.6f\n", stops ? "stopped" : "not stopped", value, expected);
    bk_scope_pop();
    return value == expected ? 0 : 1;
}
