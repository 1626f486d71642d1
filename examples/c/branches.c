/* branches.c: an element loop with a condition, and the same as tensor code, in C.
 *
 * Both forms give the same numbers. The second records four ops and evaluates them in one pass. */
#include <brisk.h>

#include <stdio.h>

enum { ROWS = 4, COLUMNS = 6 };

/* r[i,j] = x[i,j] > 0.5 ? 2 * x[i,j] : x[i,j] / 2, element by element on the tensors' memory */
static void by_element(bk_tensor *r, bk_tensor *x)
{
    const float *from = bk_data(x);
    float *to = bk_data(r);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        to[i] = from[i] > 0.5f ? 2 * from[i] : from[i] / 2;
}

static bk_tensor *by_tensor(bk_tensor *x)
{
    bk_tensor *half = bk_scalar(0.5, BK_FLOAT32);
    bk_tensor *two = bk_scalar(2, BK_FLOAT32);
    return bk_where(bk_gt(x, half), bk_mul(x, two), bk_mul(x, half));
}

int main(void)
{
    const int64_t sizes[] = { ROWS, COLUMNS };
    bk_scope_push(); /* releases everything made below at once */
    bk_manual_seed(0);
    bk_tensor *x = bk_rand(2, sizes, BK_FLOAT32, NULL);
    bk_tensor *loop = bk_zeros(2, sizes, BK_FLOAT32);
    by_element(loop, x);

    /* A NULL anywhere in the chain ends as NULL here, with its cause in bk_error(). */
    char *text = bk_to_string(bk_sub(by_tensor(x), loop));
    int failed = !text;
    if (failed)
        fprintf(stderr, "%s\n", bk_error());
    else
        printf("difference of the two forms:\n%s\n", text);
    bk_free(text);
    bk_scope_pop();
    return failed;
}
