/* floats.c: an array of numbers to a tensor, sin, square, and back. */
#include <brisk.h>

#include <stdio.h>

enum { COUNT = 1000000 };

static float numbers[COUNT];

int main(void)
{
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)i * 0.1f;

    const int64_t size = COUNT;
    bk_tensor *x = bk_from_data(numbers, 1, &size, BK_FLOAT32);
    bk_tensor *s = bk_sin(x);
    bk_tensor *y = bk_mul(s, s);
    char *text = bk_to_string(y);
    if (text)
        printf("sin(x)**2 of %d numbers: %s\n", COUNT, text);
    else
        fprintf(stderr, "%s\n", bk_error());

    int failed = !text;
    bk_free(text);
    bk_release(y);
    bk_release(s);
    bk_release(x);
    return failed;
}
