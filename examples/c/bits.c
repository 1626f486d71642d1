/* bits.c: the same memory as another type: 1 / sqrt(x) from the bits of x, in C.
 *
 * The bits of a float, read as an integer, are roughly its logarithm. Half of it, taken from a constant, is that of the
 * inverse root; two of Newton's steps do the rest. */
#include <brisk.h>

#include <stdio.h>

static bk_tensor *first_guess(const bk_tensor *x)
{
    bk_tensor *bits = bk_bitwise_right_shift_s(bk_view_dtype(x, BK_INT32), 1);
    return bk_view_dtype(bk_sub(bk_full_like(bits, 0x5F3759DF, BK_INT32), bits), BK_FLOAT32);
}

/* y (3 - x y^2) / 2 */
static bk_tensor *newton(const bk_tensor *x, const bk_tensor *y)
{
    return bk_mul(y, bk_add_s(bk_mul_s(bk_mul(x, bk_square(y)), -0.5), 1.5));
}

/* The largest error of y, as a part of 1 / sqrt(x). */
static double error(const bk_tensor *x, const bk_tensor *y)
{
    return bk_item(bk_amax(bk_abs(bk_add_s(bk_mul(y, bk_sqrt(x)), -1)), 0, false));
}

int main(void)
{
    bk_scope_push();
    bk_tensor *x = bk_logspace(-3, 3, 7, 10, BK_FLOAT32);
    bk_tensor *guess = first_guess(x);
    double before = error(x, guess), after = error(x, newton(x, newton(x, guess)));
    if (bk_error())
        fprintf(stderr, "%s\n", bk_error());
    else
        printf("from the bits alone: off by %.1e\nafter two steps: off by %.1e\n", before, after);
    bk_scope_pop();
    return after < 1e-5 ? 0 : 1;
}
